import { describe, expect, test } from "bun:test";
import { version } from "../package.json";
import { AddressGuard } from "../src/machine/network/address-guard.ts";
import { Fetcher, type FetcherOptions } from "../src/pipeline/fetcher.ts";
import { failureOf } from "./helpers/failure.ts";
import { rawServer } from "./helpers/raw-server.ts";

/**
 * An address guard for tests: 127.0.0.1 counts as public, every other address as private. Names resolve to 127.0.0.1,
 * or to 127.0.0.2 if they begin with "inner".
 */
function loopbackGuard(lookups: string[] = []): AddressGuard {
  return new AddressGuard({
    isAllowed: (address) => address === "127.0.0.1",
    resolver: async (name) => {
      lookups.push(name);
      return [name.startsWith("inner") ? "127.0.0.2" : "127.0.0.1"];
    },
  });
}

function newFetcher(options: Partial<FetcherOptions> = {}): Fetcher {
  return new Fetcher({ guard: loopbackGuard(), timeoutMs: 20_000, ...options });
}

describe("a file", () => {
  test("in many chunks is complete, with or without a length", async () => {
    const bytes = Uint8Array.from({ length: 4 * 2 ** 20 }, (_, i) => (i * 2654435761) >>> 24);
    const whole = Bun.hash(bytes);
    using server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: ({ url }) => new Response(url.endsWith("/told") ? bytes : new Blob([bytes]).stream()),
    });
    using fetcher = newFetcher();
    for (const path of ["told", "untold"]) {
      const file = await fetcher.fetch(`http://127.0.0.1:${server.port}/${path}`, { maxBytes: bytes.length });
      expect(Bun.hash(file.bytes)).toBe(whole);
    }
  });

  test.each([
    ["", "application/octet-stream"],
    ["Content-Type: Text/HTML; charset=utf-8\r\n", "text/html"],
  ])("with the header %j is of the type %s", async (header, mediaType) => {
    const head = `HTTP/1.1 200 OK\r\n${header}Content-Length: 2\r\n\r\n`;
    await using server = await rawServer((socket) => socket.end(`${head}ok`));
    using fetcher = newFetcher();
    expect((await fetcher.fetch(`http://127.0.0.1:${server.port}/`)).mediaType).toBe(mediaType);
  });

  test("is requested from the checked address, with the URL's name as Host", async () => {
    await using server = await rawServer((socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    const lookups: string[] = [];
    using fetcher = newFetcher({ guard: loopbackGuard(lookups) });
    await fetcher.fetch(`http://Files.test:${server.port}/a%20b?c=d#e`);
    expect(lookups).toEqual(["files.test"]);
    const [request] = server.requests;
    expect(request).toStartWith("GET /a%20b?c=d HTTP/1.1\r\n");
    expect(request?.toLowerCase()).toContain(`\r\nhost: files.test:${server.port}\r\n`);
    expect(request).toContain(`User-Agent: sconce/${version}\r\n`);
  });

  test("is fetched over the kept connection of the previous fetch", async () => {
    await using server = await rawServer((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    using fetcher = newFetcher();
    for (let index = 0; index < 50; index++) await fetcher.fetch(`http://files.test:${server.port}/${index}`);
    expect(server.requests.length).toBe(50);
    expect(server.connections).toBe(1);
  });

  test("is never fetched over a connection of another host name or port, even at the same address", async () => {
    await using server = await rawServer((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    using fetcher = newFetcher();
    for (const host of ["a.test", "b.test", "127.0.0.1", "a.test", "b.test"]) {
      await fetcher.fetch(`http://${host}:${server.port}/`);
    }
    expect(server.requests.length).toBe(5);
    expect(server.connections).toBe(3);
  });

  test("is refused if its name now resolves to a private address, despite an open connection", async () => {
    await using server = await rawServer((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    const answers = ["127.0.0.1", "127.0.0.2", "127.0.0.1"];
    const guard = new AddressGuard({
      isAllowed: (address) => address === "127.0.0.1",
      resolver: async () => answers.splice(0, 1),
    });
    using fetcher = newFetcher({ guard });
    const fetched = () => fetcher.fetch(`http://rebound.test:${server.port}/`);
    await fetched();
    expect((await failureOf(fetched())).code).toBe("file_unavailable");
    await fetched();
    expect({ requests: server.requests.length, connections: server.connections }).toEqual({
      requests: 2,
      connections: 1,
    });
  });

  test("is fetched again if the server has closed the previous connection", async () => {
    await using server = await rawServer((socket, request) => {
      if (request.startsWith("GET /2") && server.requests.length === 2) socket.destroy();
      else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    using fetcher = newFetcher();
    await fetcher.fetch(`http://127.0.0.1:${server.port}/1`);
    expect((await fetcher.fetch(`http://127.0.0.1:${server.port}/2`)).bytes.length).toBe(2);
    expect(server.connections).toBe(2);
  });

  test("is fetched from a host's next address if one refuses the connection", async () => {
    using server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("ok") });
    const guard = new AddressGuard({ allowPrivate: true, resolver: async () => ["::1", "127.0.0.1"] });
    using fetcher = newFetcher({ guard });
    expect((await fetcher.fetch(`http://both.test:${server.port}/`)).bytes.length).toBe(2);
  });

  test("is fetched from the last of many addresses, beside one that never answers", async () => {
    using server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("ok") });
    // The kernel answers no connection beyond the queue of a listener that accepts none.
    await using silent = Bun.spawn(["python3", "-c", fullListener, String(server.port)], {
      stdout: "pipe",
      stdin: "pipe",
    });
    await silent.stdout.getReader().read();
    const dead = ["127.0.0.3", "127.0.0.4", "127.0.0.5"];
    const guard = new AddressGuard({ allowPrivate: true, resolver: async () => ["127.0.0.2", ...dead, "127.0.0.1"] });
    using fetcher = newFetcher({ guard });
    expect((await fetcher.fetch(`http://many.test:${server.port}/`)).bytes.length).toBe(2);
  });
});

const fullListener = `
import socket, sys
listener = socket.socket()
listener.bind(("127.0.0.2", int(sys.argv[1])))
listener.listen(0)
clients = [socket.socket() for _ in range(3)]
for client in clients:
    client.setblocking(False)
    client.connect_ex(("127.0.0.2", int(sys.argv[1])))
print("full", flush=True)
sys.stdin.read()
`;

import { run } from "./helpers/child-output.ts";

describe("an answer", () => {
  test.each([201, 204, 206, 304])("of status %d is not a file", async (status) => {
    const body = status === 204 || status === 304 ? null : "words of the server";
    using server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(body, { status }) });
    using fetcher = newFetcher();
    const error = await failureOf(fetcher.fetch(`http://127.0.0.1:${server.port}/x.png`));
    expect(error.message).toEndWith(`/x.png answered ${status}`);
  });

  const broken: [what: string, answer: string][] = [
    ["shorter than its Content-Length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"],
    ["without its last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"],
    ["with two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"],
    ["with a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc"],
    ["cut off in its head", "HTTP/1.1 200 OK\r\nContent-Le"],
    ["that isn't HTTP", "SSH-2.0-OpenSSH_9.6\r\n\r\n"],
    ["of nothing", ""],
  ];
  test.each(broken)("%s is an error that does not reveal the address", async (_what, answer) => {
    await using server = await rawServer((socket) => socket.end(answer));
    using fetcher = newFetcher();
    const error = await failureOf(fetcher.fetch(`http://files.test:${server.port}/x`));
    expect(error.code).toBe("file_unavailable");
    expect(error.message).toStartWith(`http://files.test:${server.port}/x `);
    expect(error.message).not.toContain("127.0.0.1");
  });

  test("longer than its Content-Length ends there", async () => {
    await using server = await rawServer((socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"));
    using fetcher = newFetcher();
    expect((await fetcher.fetch(`http://127.0.0.1:${server.port}/`)).bytes.length).toBe(3);
  });

  test("with endless headers is aborted", async () => {
    await using server = await rawServer((socket) => {
      const more = () => {
        while (!socket.destroyed && socket.write(`X-More: ${"x".repeat(1000)}\r\n`));
        if (!socket.destroyed) socket.once("drain", more);
      };
      socket.write("HTTP/1.1 200 OK\r\n");
      more();
    });
    using fetcher = newFetcher();
    expect((await failureOf(fetcher.fetch(`http://127.0.0.1:${server.port}/`))).code).toBe("file_unavailable");
  });
});

describe("a redirect", () => {
  const redirectingTo = (location: string | ((path: string) => string), status = 302) =>
    Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: (request) => {
        const { pathname } = new URL(request.url);
        if (pathname === "/end") return new Response(`reached ${request.headers.get("host")}`);
        return new Response(null, {
          status,
          headers: { Location: typeof location === "string" ? location : location(pathname) },
        });
      },
    });

  test.each([301, 302, 303, 307, 308])("of status %d is followed", async (status) => {
    using server = redirectingTo("/end", status);
    using fetcher = newFetcher();
    const { bytes } = await fetcher.fetch(`http://files.test:${server.port}/start`);
    expect(new TextDecoder().decode(bytes)).toBe(`reached files.test:${server.port}`);
  });

  test("to another host looks that host up", async () => {
    const lookups: string[] = [];
    using server = redirectingTo(() => `//other.test:${server.port}/end`);
    using fetcher = newFetcher({ guard: loopbackGuard(lookups) });
    const { bytes } = await fetcher.fetch(`http://files.test:${server.port}/start`);
    expect(new TextDecoder().decode(bytes)).toBe(`reached other.test:${server.port}`);
    expect(lookups).toEqual(["files.test", "other.test"]);
  });

  test("to a private address is refused, whether the URL has a number or a name", async () => {
    for (const host of ["127.0.0.2", "inner.test", "2130706434", "[::ffff:7f00:1]", "[::1]"]) {
      using server = redirectingTo(() => `http://${host}:${server.port}/end`);
      using fetcher = newFetcher();
      const { code } = await failureOf(fetcher.fetch(`http://files.test:${server.port}/`));
      expect(code).toBe(host === "inner.test" ? "file_unavailable" : "file_refused");
    }
  });

  test.each(["file:///etc/passwd", "data:,hi", "ftp://files.test/", "http://user:secret@files.test/", "javascript:1"])(
    "to %s is refused",
    async (location) => {
      using server = redirectingTo(location);
      using fetcher = newFetcher();
      const error = await failureOf(fetcher.fetch(`http://files.test:${server.port}/start`));
      expect(error.code).toBe("file_refused");
      expect(error.message).toStartWith(`http://files.test:${server.port}/start redirects to a URL that is refused`);
      expect(error.message).not.toContain("secret");
    },
  );

  test("is followed up to the limit", async () => {
    const requests: string[] = [];
    using server = redirectingTo((path) => {
      requests.push(path);
      return path === "/3" ? "/end" : `/${Number(path.slice(1)) + 1}`;
    });
    using fetcher = newFetcher();
    expect((await fetcher.fetch(`http://127.0.0.1:${server.port}/1`)).bytes.length).toBeGreaterThan(0);
    expect(requests).toEqual(["/1", "/2", "/3"]);
    const error = await failureOf(fetcher.fetch(`http://127.0.0.1:${server.port}/0`));
    expect(error.code).toBe("file_refused");
  });

  test("without a valid Location is an error", async () => {
    for (const headers of ["", "Location: http://a b/\r\n", `Location: /${"a".repeat(9000)}\r\n`]) {
      await using server = await rawServer((socket) =>
        socket.end(`HTTP/1.1 302 Found\r\n${headers}Content-Length: 0\r\n\r\n`),
      );
      using fetcher = newFetcher();
      const error = await failureOf(fetcher.fetch(`http://127.0.0.1:${server.port}/`));
      expect(error.code).toBe("file_unavailable");
    }
  });
});

describe("a URL", () => {
  const refused: [url: string, code: string, message: string][] = [
    ["file:///etc/passwd", "file_refused", "file: URLs are not taken; expected http, https or data"],
    ["ftp://files.test/a", "file_refused", "ftp: URLs"],
    ["blob:http://files.test/a", "file_refused", "blob: URLs"],
    ["http://user:secret@files.test/a?b", "file_refused", "http://files.test/a is given with a user name or password"],
    ["https://user@files.test/", "file_refused", "leave them out of the URL"],
    ["http://127.0.0.2/", "file_refused", "the host 127.0.0.2 has no public address"],
    ["http://inner.test/", "file_unavailable", "the host inner.test "],
    ["picture.png", "file_invalid", "is not a URL"],
    ["http://a b/", "file_invalid", "is not a URL"],
    ["http://256.1.1.1/", "file_invalid", "is not a URL"],
    [`http://files.test/${"a".repeat(9000)}`, "file_invalid", "at most 8192"],
  ];
  test.each(refused)("%s is refused", async (url, code, message) => {
    using fetcher = newFetcher();
    const error = await failureOf(fetcher.fetch(url));
    expect<string>(error.code).toBe(code);
    expect(error.message).toContain(message);
    expect(error.message).not.toContain("secret");
  });
});

test("proxy variables are ignored", async () => {
  let proxied = 0;
  await using proxy = await rawServer((socket) => {
    proxied += 1;
    socket.end("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy");
  });
  using server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("direct") });
  const script = `
    import { AddressGuard } from ${JSON.stringify(require.resolve("../src/machine/network/address-guard.ts"))};
    import { Fetcher } from ${JSON.stringify(require.resolve("../src/pipeline/fetcher.ts"))};
    const guard = new AddressGuard({ allowPrivate: true, resolver: async () => ["127.0.0.1"] });
    using fetcher = new Fetcher({ guard });
    const { bytes } = await fetcher.fetch("http://files.test:${server.port}/");
    console.log(new TextDecoder().decode(bytes));
    // A plain fetch reaches the proxy, which shows that the proxy variables have an effect.
    console.log(await (await fetch("http://127.0.0.1:${server.port}/")).text());`;
  const url = `http://127.0.0.1:${proxy.port}`;
  const variables = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
  const env = {
    ...process.env,
    ...Object.fromEntries(variables.map((name) => [name, url])),
    NO_PROXY: "",
    no_proxy: "",
  };
  const ended = await run([process.execPath, "-e", script], { env });
  expect(ended).toMatchObject({ code: 0, stdout: "direct\nproxy\n" });
  expect(proxied).toBe(1);
});
