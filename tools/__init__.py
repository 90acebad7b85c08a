"""Writers of documents: programs for the checkout. Users of the sidecar do not need them, so the wheel contains none.

They turn the code's declarations (engines, metrics, configuration keys, failures, interventions) into tables of docs/
and of the runbooks. They import the package; nothing in the package imports them.
"""
