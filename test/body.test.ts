/** Answers that the server delays arrive completely and in few TCP segments, at any length. */
import { dlopen, ptr } from "bun:ffi";
import { afterAll, expect, test } from "bun:test";
import { bodyOf } from "../src/http/record-json.ts";

const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    const text = (searchParams.get("of") ?? "n").repeat(Number(pathname.slice(1)));
    await new Promise((resolve) => setImmediate(resolve));
    return new Response(bodyOf(text, { answerBytes: undefined }), {
      headers: { "Content-Type": "text/plain", "X-Request-Id": "1" },
    });
  },
});
afterAll(() => server.stop(true));

test.each(["n", "語"])("texts of %s around the length where sending changes arrive whole", async (letter) => {
  for (const length of [0, 1, 15_359, 15_360, 15_361, 16_384, 40_000, 300_000]) {
    const answers = await Promise.all([1, 2, 3].map(() => fetch(new URL(`/${length}?of=${letter}`, server.url))));
    for (const answer of answers) {
      expect(answer.headers.get("content-type")).toBe("text/plain");
      expect(await answer.text()).toBe(letter.repeat(length));
    }
  }
});

// Only Linux counts the segments of a connection.
test.skipIf(process.platform !== "linux").each([1000, 20_000, 60_000])(
  "an answer of %d bytes arrives in a few TCP segments (Linux)",
  async (length) => {
    expect(await segmentsOf(`GET /${length} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)).toBeLessThan(9);
  },
);

/** Sends a request that asks to close the connection. @returns the number of TCP segments with data in the answer */
async function segmentsOf(request: string): Promise<number> {
  const libc = dlopen("libc.so.6", {
    socket: { args: ["int", "int", "int"], returns: "int" },
    connect: { args: ["int", "ptr", "int"], returns: "int" },
    send: { args: ["int", "ptr", "usize", "int"], returns: "i64" },
    recv: { args: ["int", "ptr", "usize", "int"], returns: "i64" },
    getsockopt: { args: ["int", "int", "int", "ptr", "ptr"], returns: "int" },
    close: { args: ["int"], returns: "int" },
  });
  const { socket, connect, send, recv, getsockopt, close } = libc.symbols;
  const [AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_INFO, MSG_DONTWAIT] = [2, 1, 6, 11, 0x40];
  const descriptor = socket(AF_INET, SOCK_STREAM, 0);
  try {
    const port = server.port ?? 0;
    const address = Uint8Array.of(AF_INET, 0, port >> 8, port & 255, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    expect(connect(descriptor, ptr(address), address.length)).toBe(0);
    const bytes = new TextEncoder().encode(request);
    expect(Number(send(descriptor, ptr(bytes), bytes.length, 0))).toBe(bytes.length);
    const buffer = new Uint8Array(100_000);
    // Reads until the end of the answer, where `recv` returns 0. While no data has arrived, `recv` returns -1.
    while (Number(recv(descriptor, ptr(buffer), buffer.length, MSG_DONTWAIT)) !== 0) await new Promise(setImmediate);
    // The struct tcp_info of linux/tcp.h; its field tcpi_data_segs_in begins at byte 152.
    const [info, size] = [new Uint32Array(64), Uint32Array.of(256)];
    expect(getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, ptr(info), ptr(size))).toBe(0);
    const DATA_SEGS_IN = 152 / 4;
    return info[DATA_SEGS_IN] ?? Number.NaN;
  } finally {
    close(descriptor);
    libc.close();
  }
}
