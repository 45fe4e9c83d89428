"""Counters with one limit that many processes share, as peers of the service: in PostgreSQL, and in Redis or Valkey.

They have neither sessions nor explanations.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from pathlib import Path
from typing import Any, Final, Self

import psycopg


def empty_database(url: str) -> None:
    """Drop the database of a URL, and make it again."""
    server, _, name = url.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"drop database if exists {name} with (force)")
        connection.execute(f"create database {name}")


class Function:
    """Rows of PostgreSQL, which functions in SQL update; one connection per process."""

    SCHEMA: Final = """
        create table used (queue text primary key, memory bigint, maximum bigint);
        create table held (id text primary key, memory bigint);
        insert into used values ('root.a', 0, 1000000000);
        create function allocate(one text, more bigint) returns boolean language plpgsql as $$ begin
            update used set memory = memory + more where queue = 'root.a' and memory + more <= maximum;
            if not found then return false; end if;
            insert into held values (one, more);
            return true;
        end $$;
        create function release(one text) returns boolean language plpgsql as $$ declare less bigint; begin
            delete from held where id = one returning memory into less;
            if not found then return false; end if;
            update used set memory = memory - less where queue = 'root.a';
            return true;
        end $$;
    """

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    @classmethod
    def prepare(cls, url: str) -> None:
        """Make the tables and the functions in an empty database."""
        empty_database(url)
        with psycopg.connect(url) as connection:
            connection.execute(cls.SCHEMA)

    @classmethod
    async def connect(cls, url: str) -> Self:
        """Connect."""
        return cls(await psycopg.AsyncConnection.connect(url, autocommit=True))

    async def allocate(self, name: str, _application: str, _usage: object) -> None:
        """Allocate 1."""
        await self._connection.execute("select allocate(%s, 1)", (name,))

    async def release(self, name: str) -> None:
        """Release."""
        await self._connection.execute("select release(%s)", (name,))

    async def __aenter__(self) -> Self:
        """Return the peer."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self._connection.close()


class Script:
    """A counter and a hash in a Redis or Valkey server, which scripts update."""

    ALLOCATE: Final = """
        local used = tonumber(redis.call('GET', 'root.a') or '0') + 1
        if used > 1000000000 then return 0 end
        redis.call('SET', 'root.a', used)
        redis.call('HSET', 'held', ARGV[1], 1)
        return 1
    """
    RELEASE: Final = """
        if redis.call('HDEL', 'held', ARGV[1]) == 0 then return 0 end
        redis.call('DECR', 'root.a')
        return 1
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, self._waiting = writer, deque[asyncio.Future[bytes]]()
        self._reading = asyncio.create_task(self._read(reader))
        self._hashes: list[bytes] = []

    @staticmethod
    def command(synchronize: str, folder: str) -> list[str]:
        """Return the command of a server with its files in a folder: it synchronizes ``always`` or ``everysec``."""
        file = ["--dir", folder, "--appendonly", "yes", "--appendfsync", synchronize]
        return [shutil.which("valkey-server") or "redis-server", "--port", "0", "--unixsocket", f"{folder}/s", *file]

    @classmethod
    async def connect(cls, path: str) -> Self:
        """Connect, and load the scripts."""
        script = cls(*await asyncio.open_unix_connection(Path(path)))
        script._hashes = [await script._call("SCRIPT", "LOAD", text) for text in (cls.ALLOCATE, cls.RELEASE)]
        return script

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if line.startswith(b"-"):
                raise RuntimeError(line)
            self._waiting.popleft().set_result(await reader.readline() if line.startswith(b"$") else line)

    def _call(self, *words: str | bytes) -> asyncio.Future[bytes]:
        parts = [word.encode() if isinstance(word, str) else word.strip() for word in words]
        texts = [b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]
        self._writer.write(b"*%d\r\n%b" % (len(parts), b"".join(texts)))
        self._waiting.append(answer := asyncio.get_running_loop().create_future())
        return answer

    async def allocate(self, name: str, _application: str, _usage: object) -> None:
        """Allocate 1."""
        await self._call("EVALSHA", self._hashes[0], "0", name)

    async def release(self, name: str) -> None:
        """Release."""
        await self._call("EVALSHA", self._hashes[1], "0", name)

    async def __aenter__(self) -> Self:
        """Return the peer."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        self._reading.cancel()
        self._writer.close()
