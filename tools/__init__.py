"""Writers of documents: programs of the checkout that a user of the sidecar does not need, so the wheel has none of them.

They turn what the code declares (engines, metrics, configuration keys, failures, interventions) into the tables of docs/ and of the
runbooks. They read from the package; nothing in the package imports them.
"""
