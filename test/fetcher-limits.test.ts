import { describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { SconceError } from "../src/base/errors.ts";
import { AddressGuard } from "../src/machine/network/address-guard.ts";
import { Fetcher, type FetcherOptions } from "../src/pipeline/fetcher.ts";
import { failureOf } from "./helpers/failure.ts";
import { type RawServer, rawServer } from "./helpers/raw-server.ts";

const guard = new AddressGuard({ allowPrivate: true });

function newFetcher(options: Partial<FetcherOptions> = {}): Fetcher {
  return new Fetcher({ guard, timeoutMs: 20_000, ...options });
}

function serving(bytes: Uint8Array, encoding?: string) {
  const headers = encoding === undefined ? {} : { "Content-Encoding": encoding };
  return Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(bytes, { headers }) });
}

describe("the size limit", () => {
  test("accepts a file of exactly this size, and no larger one", async () => {
    using exact = serving(new Uint8Array(1000));
    using larger = serving(new Uint8Array(1001));
    using fetcher = newFetcher();
    const limit = { maxBytes: 1000 };
    expect((await fetcher.fetch(`http://127.0.0.1:${exact.port}/`, limit)).bytes.length).toBe(1000);
    const error = await failureOf(fetcher.fetch(`http://127.0.0.1:${larger.port}/big.png`, limit));
    expect(error.code).toBe("file_too_large");
    expect(error.message).toBe(`http://127.0.0.1:${larger.port}/big.png has more than 1000 bytes`);
  });

  test.each([
    ["chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", `400\r\n${"x".repeat(1024)}\r\n`],
    [
      "chunked with a small Content-Length",
      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
      `400\r\n${"x".repeat(1024)}\r\n`,
    ],
    ["to the end of the connection", "HTTP/1.1 200 OK\r\n\r\n", "x".repeat(1024)],
  ])("stops an endless body, sent %s", async (_how, head, chunk) => {
    await using server = await rawServer((socket) => {
      const more = () => {
        while (!socket.destroyed && socket.write(chunk));
        if (!socket.destroyed) socket.once("drain", more);
      };
      socket.write(head);
      more();
    });
    using fetcher = newFetcher();
    const fetched = fetcher.fetch(`http://127.0.0.1:${server.port}/`, { maxBytes: 1_000_000 });
    expect((await failureOf(fetched)).code).toBe("file_too_large");
    await server.closed();
  });
});

test("ignores a Content-Length beside a Transfer-Encoding", async () => {
  for (const length of [3, 300]) {
    const head = `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    await using server = await rawServer((socket) => socket.write(`${head}a\r\n0123456789\r\n0\r\n\r\n`));
    using fetcher = newFetcher();
    const { bytes } = await fetcher.fetch(`http://127.0.0.1:${server.port}/`);
    expect(Buffer.from(bytes).toString()).toBe("0123456789");
  }
});

test.each(["gzip", "br", "gzip, br"])(
  "a file with the Content-Encoding %s is refused before it is read",
  async (encoding) => {
    using server = serving(gzipSync(new Uint8Array(300_000)), encoding);
    using fetcher = newFetcher();
    const error = await failureOf(fetcher.fetch(`http://127.0.0.1:${server.port}/`));
    expect(error.code).toBe("file_invalid");
    expect(error.message).toEndWith(`/ has the Content-Encoding "${encoding}"; expected none`);
  },
);

describe("the time limit", () => {
  const expectTimeout = async (server: RawServer) => {
    using fetcher = newFetcher({ timeoutMs: 50 });
    const error = await failureOf(fetcher.fetch(`http://127.0.0.1:${server.port}/slow`));
    expect(error.code).toBe("file_unavailable");
    expect(error.message).toBe(`http://127.0.0.1:${server.port}/slow was not there within 0.05 s`);
    // On a very busy machine the time limit can pass before the connection opens.
    if (server.connections > 0) await server.closed();
  };

  test("ends a fetch whose body stalls", async () => {
    await using server = await rawServer((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"));
    await expectTimeout(server);
  });

  test("ends a fetch whose body arrives byte by byte", async () => {
    await using server = await rawServer((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
      const drip = setInterval(() => socket.write("x"), 5);
      socket.on("close", () => clearInterval(drip));
    });
    await expectTimeout(server);
  });

  test("includes all redirects", async () => {
    await using server = await rawServer((socket) => {
      setTimeout(() => socket.end("HTTP/1.1 302 Found\r\nLocation: /slow\r\nContent-Length: 0\r\n\r\n"), 30);
    });
    using fetcher = newFetcher({ timeoutMs: 50 });
    expect((await failureOf(fetcher.fetch(`http://127.0.0.1:${server.port}/slow`))).message).toContain("within 0.05 s");
  });

  test("includes the look-up of the name", async () => {
    const stuck = new AddressGuard({ resolver: () => new Promise(() => {}) });
    using fetcher = newFetcher({ guard: stuck, timeoutMs: 20 });
    expect((await failureOf(fetcher.fetch("http://files.test/"))).message).toContain("within 0.02 s");
  });
});

describe("an abort", () => {
  test("before the fetch sends no request", async () => {
    await using server = await rawServer((socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    using fetcher = newFetcher();
    const signal = AbortSignal.abort();
    expect((await failureOf(fetcher.fetch(`http://127.0.0.1:${server.port}/`, { signal }))).code).toBe("canceled");
    expect((await failureOf(fetcher.fetch("data:,hi", { signal }))).code).toBe("canceled");
    expect(server.connections).toBe(0);
  });

  test("during the body ends the fetch with the signal's error", async () => {
    const controller = new AbortController();
    const reason = new SconceError("timed_out", "The prediction took too long");
    await using server = await rawServer((socket) =>
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", () => controller.abort(reason)),
    );
    using fetcher = newFetcher();
    const fetching = fetcher.fetch(`http://127.0.0.1:${server.port}/`, { signal: controller.signal });
    expect(await failureOf(fetching)).toBe(reason);
    await server.closed();
  });

  test("during the look-up ends the fetch", async () => {
    const controller = new AbortController();
    const stuck = new AddressGuard({
      resolver: () => {
        controller.abort();
        return new Promise(() => {});
      },
    });
    using fetcher = newFetcher({ guard: stuck });
    expect((await failureOf(fetcher.fetch("http://files.test/", { signal: controller.signal }))).code).toBe("canceled");
  });

  test("of one fetch does not affect others", async () => {
    const controller = new AbortController();
    await using server = await rawServer((socket, request) => {
      if (request.startsWith("GET /aborted")) controller.abort();
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    using fetcher = newFetcher();
    const base = `http://127.0.0.1:${server.port}`;
    const [aborted, ...others] = await Promise.allSettled([
      fetcher.fetch(`${base}/aborted`, { signal: controller.signal }),
      ...Array.from({ length: 20 }, (_, index) => fetcher.fetch(`${base}/${index}`)),
    ]);
    expect(aborted.status).toBe("rejected");
    expect(others.every(({ status }) => status === "fulfilled")).toBe(true);
  });
});
