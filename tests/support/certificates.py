"""Certificates of an authority that only a test trusts, as the files that a web config names, and the clients' side of them.

It knows `trustme`, and nothing of the sidecar.
"""

import ssl
from pathlib import Path

import trustme


class Authority:
    """An authority with one server certificate, for 127.0.0.1, written into `folder` as ca.pem, cert.pem and key.pem."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.folder = folder
        self.ca.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.issue()

    def issue(self) -> None:
        """Write a new server certificate in place of the last one."""
        issued = self.ca.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(str(self.folder / "key.pem"))
        (self.folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))

    def client(self, *names: str) -> ssl.SSLContext:
        """The context of a client that trusts this authority; with names it has a certificate for them."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if names:
            self.ca.issue_cert(*names).configure_cert(context)
        return context
