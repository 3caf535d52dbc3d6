"""A forward proxy for drills: CONNECT with a name and a password, and a delay for every piece that passes."""

import asyncio
import base64
import sys


async def carry(reader, writer, delay):
    try:
        while piece := await reader.read(1 << 16):
            await asyncio.sleep(delay)
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(host, port, words, delay):
    right = base64.b64encode(words.encode()).decode()

    async def handle(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if f"Basic {right}" not in head:
            writer.write(b"HTTP/1.1 407 who are you\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        target = head.split()[1].rpartition(":")
        try:
            there, back = await asyncio.open_connection(target[0].strip("[]"), int(target[2]))
        except OSError:
            writer.write(b"HTTP/1.1 502 not there\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 so be it\r\n\r\n")
        await asyncio.gather(carry(reader, back, delay), carry(there, writer, delay))

    async with await asyncio.start_server(handle, host, port) as server:
        print("ready", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    host, port, words, delay = sys.argv[1:]
    asyncio.run(serve(host, int(port), words, float(delay)))
