import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AddressGuard, isGlobalAddress } from "../src/machine/network/address-guard.ts";
import { failureOf } from "./helpers/failure.ts";

/** First and last addresses of the IP ranges that IANA's registries list as not globally reachable, by purpose. */
const special: Record<string, string[]> = {
  "this network": ["0.0.0.0", "0.0.0.1", "0.255.255.255"],
  private: ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"],
  "carrier-grade NAT": ["100.64.0.0", "100.127.255.255"],
  loopback: ["127.0.0.0", "127.0.0.1", "127.255.255.255", "::1"],
  "link-local": ["169.254.0.0", "169.254.169.254", "169.254.255.255", "fe80::", "fe80::1%lo", "febf:ffff::1"],
  "protocol assignments": ["192.0.0.0", "192.0.0.255", "2001::", "2001:1ff:ffff::1"],
  documentation: [
    "192.0.2.0",
    "192.0.2.255",
    "198.51.100.0",
    "203.0.113.255",
    "2001:db8::",
    "2001:db8:ffff::1",
    "3fff::1",
  ],
  "6to4 relay": ["192.88.99.0", "192.88.99.255"],
  benchmarking: ["198.18.0.0", "198.19.255.255", "2001:2::1"],
  multicast: ["224.0.0.0", "239.255.255.255", "ff00::", "ff02::1", "ff0e::1"],
  reserved: ["240.0.0.0", "255.255.255.254", "4000::1", "fe00::1", "200::1"],
  broadcast: ["255.255.255.255"],
  unspecified: ["::"],
  "IPv4-mapped": ["::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:7f00:1", "0:0:0:0:0:ffff:a00:1"],
  "IPv4-compatible": ["::127.0.0.1", "::8.8.8.8", "::a00:1"],
  "IPv4-translated": ["::ffff:0:127.0.0.1"],
  NAT64: ["64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "64:ff9b:1::808:808"],
  "6to4": ["2002:7f00:1::", "2002:808:808::1"],
  Teredo: ["2001:0:4136:e378:8000:63bf:3fff:fdd2"],
  "unique local": ["fc00::", "fd12:3456::1", "fdff:ffff::1"],
  "site-local": ["fec0::1", "feff::1"],
  "discard-only": ["100::1"],
  ORCHID: ["2001:10::1", "2001:40::1"],
  "segment routing": ["5f00::1"],
};

describe("an address", () => {
  test.each(Object.entries(special).flatMap(([purpose, addresses]) => addresses.map((a) => [a, purpose] as const)))(
    "%s (%s) is not global",
    (address) => expect(isGlobalAddress(address)).toBe(false),
  );

  const neighbours = [
    ["1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"],
    ["169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.3.0", "192.167.255.255", "192.169.0.0"],
    ["198.17.255.255", "198.20.0.0", "198.51.99.255", "203.0.114.0", "223.255.255.255", "8.8.8.8"],
    // IANA calls these blocks inside special ranges globally reachable.
    ["192.0.0.9", "192.0.0.10", "192.31.196.1", "192.52.193.1", "192.175.48.1", "2001:1::1", "2001:1::3"],
    ["2001:3::1", "2001:4:112::1", "2001:20::1", "2001:3f:ffff::1", "2620:4f:8000::1", "64:ff9b::8.8.8.8"],
    ["2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00::1", "2003::1"],
  ].flat();
  test.each(neighbours)("%s next to a special range is global", (address) =>
    expect(isGlobalAddress(address)).toBe(true),
  );

  test.each(["", "localhost", "127.1", "0x7f.0.0.1", "010.0.0.1", "2130706433", "8.8.8.8 ", "8.8.8.8:80", "[2a00::1]"])(
    "%p is not an address, and so not global",
    (text) => expect(isGlobalAddress(text)).toBe(false),
  );

  test("of 10, 127, 169.254, 192.168 or 172.16/12 is private in every IPv6 notation", () => {
    const octet = fc.nat(255);
    const privateV4 = fc.oneof(
      fc.tuple(fc.constantFrom(10, 127), octet, octet, octet),
      fc.tuple(fc.constant(169), fc.constant(254), octet, octet),
      fc.tuple(fc.constant(192), fc.constant(168), octet, octet),
      fc.tuple(fc.constant(172), fc.integer({ min: 16, max: 31 }), octet, octet),
    );
    fc.assert(
      fc.property(privateV4, ([a, b, c, d]) => {
        const hex = `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
        const dotted = `${a}.${b}.${c}.${d}`;
        const spellings = [`::ffff:${dotted}`, `::ffff:${hex}`, `::${hex}`, `64:ff9b::${hex}`, `2002:${hex}::1`];
        for (const address of [dotted, ...spellings]) expect(isGlobalAddress(address)).toBe(false);
      }),
    );
  });

  test("outside 2000::/3 is never global", () => {
    const group = fc.nat(0xffff).map((value) => value.toString(16));
    const first = fc.nat(0xffff).filter((value) => value >> 13 !== 1);
    fc.assert(
      fc.property(first, fc.array(group, { minLength: 7, maxLength: 7 }), (head, rest) =>
        expect(isGlobalAddress([head.toString(16), ...rest].join(":"))).toBe(false),
      ),
    );
  });
});

describe("the guard", () => {
  const noLookup = async () => {
    throw new Error("a literal address is not looked up");
  };
  const guard = new AddressGuard({ resolver: noLookup });

  // Spellings that the next test does not make.
  test.each(["http://0/", "http://127.0.0.1./", "http://①②⑦.0.0.1/", "http://[::]/", "http://[fe80::1]/"])(
    "refuses the host in %s",
    async (url) => {
      expect((await failureOf(guard.resolveAll(new URL(url).hostname))).code).toBe("file_refused");
    },
  );

  test("refuses hundreds of spellings of private addresses without a look-up", async () => {
    /**
     * Random spelling of one part of an IPv4 address that C libraries and browsers accept: decimal, or octal or
     * hexadecimal with leading zeros.
     */
    const part = (value: number) =>
      fc.tuple(fc.constantFrom(10, 8, 16), fc.nat(3), fc.boolean()).map(([base, zeros, isUpper]) => {
        const digits = "0".repeat(base === 10 ? 0 : zeros) + value.toString(base);
        return (base === 10 ? "" : base === 8 ? "0" : "0x") + (isUpper ? digits.toUpperCase() : digits);
      });
    const privateV4 = fc
      .tuple(fc.constantFrom([127, 0], [10, 9], [169, 254], [192, 168], [172, 20], [0, 0], [100, 64]), fc.nat(0xffff))
      .map(([[a = 0, b = 0], rest]) => [a, b, rest >> 8, rest & 255] as const);
    const spelling = privateV4.chain(([a, b, c, d]) => {
      const dotted = (...values: number[]) => fc.tuple(...values.map(part)).map((parts) => parts.join("."));
      const hex = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
      return fc.oneof(
        dotted(a, b, c, d),
        dotted(a, b, (c << 8) | d),
        dotted(a, (b << 16) | (c << 8) | d),
        dotted(((a << 24) | (b << 16) | (c << 8) | d) >>> 0),
        fc
          .constantFrom("::ffff:", "::", "64:ff9b::", "0:0:0:0:0:FFFF:", "2002:")
          .map((prefix) => (prefix === "2002:" ? `[2002:${hex}::1]` : `[${prefix}${hex}]`)),
      );
    });
    const disguise = fc.constantFrom<(host: string) => string>(
      (host) => host,
      (host) => (host.startsWith("[") ? host : `${host}.`),
      (host) => (host.startsWith("[") ? host : host.replaceAll(".", "\u3002")),
      (host) =>
        host.startsWith("[") ? host : host.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit))),
      (host) => (host.startsWith("[") ? host : host.replace(/\d/, (digit) => `%3${digit}`)),
    );
    const spelled = fc.tuple(spelling, disguise).map(([host, as]) => `http://${as(host)}/`);
    await fc.assert(
      fc.asyncProperty(spelled, async (url) => {
        expect((await failureOf(guard.resolveAll(new URL(url).hostname))).code).toBe("file_refused");
      }),
      { numRuns: 500 },
    );
  });

  test.each(["http://8.8.8.8/", "http://134744072/", "http://0x08.8.8.010/"])("accepts the host in %s", async (url) => {
    expect((await guard.resolveAll(new URL(url).hostname))[0]).toBe("8.8.8.8");
  });

  test("returns an IPv6 address without brackets", async () => {
    expect((await guard.resolveAll("[2606:4700::1111]"))[0]).toBe("2606:4700::1111");
  });

  test.each(["localhost", "LOCALHOST", "localhost."])(
    "refuses %s as the address that it encodes, or as unknown",
    async (name) => {
      expect(["file_refused", "file_unavailable"]).toContain(
        (await failureOf(new AddressGuard().resolveAll(name))).code,
      );
    },
  );

  test("reports a name with only private addresses like an unknown name; only the cause differs", async () => {
    const inner = new AddressGuard({ resolver: async () => ["10.1.2.3", "fd00::1"] });
    const notFound = Object.assign(new Error("from 10.0.0.53"), { code: "ENOTFOUND" });
    const failing = new AddressGuard({ resolver: () => Promise.reject(notFound) });
    const empty = new AddressGuard({ resolver: async () => [] });
    const errors = await Promise.all([inner, failing, empty].map((guard) => failureOf(guard.resolveAll("inner.test"))));
    const message =
      "the host inner.test was not found or has no public address; private addresses need --allow-private-urls";
    expect(errors.map((error) => `${error.code}: ${error.message}`)).toEqual(
      Array(3).fill(`file_unavailable: ${message}`),
    );
    expect(String(errors[0]?.cause)).toContain("10.1.2.3, fd00::1");
    expect(errors[1]?.cause).toBe(notFound);
  });

  test("returns only the public addresses of a name", async () => {
    const mixed = new AddressGuard({ resolver: async () => ["10.1.2.3", "8.8.8.8", "::1", "2606:4700::1111"] });
    expect(await mixed.resolveAll("mixed.test")).toEqual(["8.8.8.8", "2606:4700::1111"]);
  });

  test("refuses a look-up result that is not an address", async () => {
    const odd = new AddressGuard({ resolver: async () => ["0x7f.1", ""] });
    expect((await failureOf(odd.resolveAll("odd.test"))).code).toBe("file_unavailable");
  });

  test("reports an unknown name when all addresses are allowed", async () => {
    const failing = new AddressGuard({
      allowPrivate: true,
      resolver: () => Promise.reject(new Error("from 10.0.0.53")),
    });
    const empty = new AddressGuard({ allowPrivate: true, resolver: async () => [] });
    for (const guard of [failing, empty]) {
      const error = await failureOf(guard.resolveAll("nosuch.test"));
      expect(`${error.code}: ${error.message}`).toBe("file_unavailable: the host nosuch.test was not found");
    }
  });

  test("accepts private addresses when they are allowed", async () => {
    const open = new AddressGuard({ allowPrivate: true, resolver: async () => ["10.1.2.3"] });
    expect((await open.resolveAll("127.0.0.1"))[0]).toBe("127.0.0.1");
    expect((await open.resolveAll("[::1]"))[0]).toBe("::1");
    expect((await open.resolveAll("inner.test"))[0]).toBe("10.1.2.3");
  });
});
