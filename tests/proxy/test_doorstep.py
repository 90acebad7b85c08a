"""A client that comes to a listener before it answers waits at the doorstep."""

import asyncio
import errno
import socket

import pytest

from sidecar.proxy.doorstep import Doorstep


def test_a_client_that_comes_before_the_server_is_served_when_it_is_there() -> None:
    """It connects and sends at once, and no server accepts. Later one takes the sockets, and the bytes are still there."""

    async def scenario() -> bytes:
        doorstep = Doorstep()
        host, port = await doorstep.open("127.0.0.1", 0)
        early = socket.create_connection((host, port), timeout=5)
        early.sendall(b"early")
        read: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            read.set_result(await reader.readexactly(5))
            writer.close()

        (taken,) = doorstep.taken()
        async with await asyncio.start_server(serve, sock=taken):
            found = await asyncio.wait_for(read, 5)
        early.close()
        return found

    assert asyncio.run(scenario()) == b"early"


def test_a_port_that_is_taken_is_an_error_that_names_the_address_and_leaves_nothing_open() -> None:
    """The error is of the words that the loop itself uses for a listener. `localhost` may have two addresses."""

    async def scenario(host: str, port: int) -> list[socket.socket]:
        doorstep = Doorstep()
        with pytest.raises(OSError, match=f"attempting to bind on address .*{port}.*: address already in use"):
            await doorstep.open(host, port)
        left = doorstep.taken()
        for each in left:
            each.close()
        return left

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        asyncio.run(scenario("127.0.0.1", port))


async def every_interface() -> list[tuple[str, int]]:
    """The addresses on which an empty host listens."""
    doorstep = Doorstep()
    await doorstep.open("", 0)
    taken = doorstep.taken()
    names = [each.getsockname()[:2] for each in taken]
    for each in taken:
        each.close()
    return names


def test_an_empty_host_is_every_interface() -> None:
    """A socket of its own for each family, all of one port."""
    found = asyncio.run(every_interface())

    assert {host for host, _ in found} <= {"0.0.0.0", "::"}
    assert len({port for _, port in found}) == 1


def test_a_kernel_without_ipv6_listens_on_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutSix(socket.socket):
        def __init__(self, family: int = -1, *rest: object, **more: object) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *rest, **more)  # type: ignore[arg-type]  # as it was called

    both = [
        (family, socket.SOCK_STREAM, 6, "", (host, 0))
        for family, host in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0"))
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: both)
    monkeypatch.setattr("sidecar.proxy.doorstep.socket.socket", WithoutSix)

    assert [host for host, _ in asyncio.run(every_interface())] == ["0.0.0.0"]
