import { describe, expect, test } from "bun:test";
import { AddressGuard } from "../src/machine/network/address-guard.ts";
import { Fetcher } from "../src/pipeline/fetcher.ts";
import { makeCertificates } from "./helpers/certificates.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";

describe.skipIf(Bun.which("openssl") === null)("over https", () => {
  const guard = new AddressGuard({ allowPrivate: true, resolver: async () => ["127.0.0.1"] });
  const dir = fixture(tempDir);
  const tls = fixture(() => makeCertificates(dir));
  const server = fixture(() =>
    Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      tls: { key: tls.key, cert: tls.cert },
      fetch(request) {
        const { pathname, searchParams } = new URL(request.url);
        if (pathname === "/to") return Response.redirect(searchParams.get("url") ?? "", 302);
        return new Response(`served ${request.headers.get("host")}`);
      },
    }),
  );

  test("a certificate for the name in the URL is accepted, although the connection uses the address", async () => {
    using fetcher = new Fetcher({ guard, ca: tls.ca });
    for (const host of ["files.test", "127.0.0.1"]) {
      const { bytes } = await fetcher.fetch(`https://${host}:${server.port}/`);
      expect(new TextDecoder().decode(bytes)).toBe(`served ${host}:${server.port}`);
    }
  });

  test("a certificate for another name is refused, on an open connection too", async () => {
    using fetcher = new Fetcher({ guard, ca: tls.ca });
    await fetcher.fetch(`https://files.test:${server.port}/`);
    const error = await failureOf(fetcher.fetch(`https://other.test:${server.port}/`));
    expect(error.code).toBe("file_unavailable");
    expect(error.message).toContain("CERT");
  });

  test("a certificate of an unknown authority is refused", async () => {
    using fetcher = new Fetcher({ guard });
    const error = await failureOf(fetcher.fetch(`https://files.test:${server.port}/`));
    expect(error.code).toBe("file_unavailable");
    expect(error.message).not.toContain("127.0.0.1");
  });

  test("a redirect to http is refused, a redirect to https is followed", async () => {
    using plain = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("plain") });
    using fetcher = new Fetcher({ guard, ca: tls.ca });
    const to = (url: string) => `https://files.test:${server.port}/to?url=${encodeURIComponent(url)}`;
    const { bytes } = await fetcher.fetch(to(`https://files.test:${server.port}/end`));
    expect(new TextDecoder().decode(bytes)).toStartWith("served");
    const error = await failureOf(fetcher.fetch(to(`http://files.test:${plain.port}/`)));
    expect(error.code).toBe("file_refused");
    expect(error.message).toBe(`https://files.test:${server.port}/to redirects from https to http`);
  });
});
