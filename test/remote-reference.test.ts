import { describe, expect, test } from "bun:test";
import { isLoopback } from "../src/machine/network/host-name.ts";
import { formatRemote, parseRemoteReference } from "../src/package/registry/remote-reference.ts";
import { failure } from "./helpers/failure.ts";

const digest = `sha256:${"a".repeat(64)}`;

describe("a reference to a registry", () => {
  test.each([
    ["registry.example.com/team/digits:v1", "registry.example.com", "team/digits", "v1"],
    ["registry.example.com/digits", "registry.example.com", "digits", undefined],
    ["localhost/digits:latest", "localhost", "digits", "latest"],
    ["models:5000/digits", "models:5000", "digits", undefined],
    ["[::1]:5000/a/b/c:V_1", "[::1]:5000", "a/b/c", "V_1"],
  ])("%s", (text, host, repository, tag) => {
    expect(parseRemoteReference(text)).toEqual({ host, repository, tag, digest: undefined });
    expect(formatRemote(parseRemoteReference(text))).toBe(text);
  });

  test("may end with a digest", () => {
    const text = `registry.example.com/digits@${digest}`;
    const expected = { host: "registry.example.com", repository: "digits", tag: undefined, digest };
    expect(parseRemoteReference(text)).toEqual(expected);
    expect(formatRemote(parseRemoteReference(text))).toBe(text);
  });

  test.each([
    ["digits:v1", "does not begin with a registry's host"],
    ["team/digits:v1", "does not begin with a registry's host"],
    ["https://registry.example.com/digits", "leave out the scheme before the host"],
    ["user@registry.example.com/digits", "is not a host"],
    ["registry.example.com:99999/digits", "is not a host"],
    ["registry.example.com:/digits", "is not a host"],
    ["999.999.1.1/digits", "is not a host"],
    ["[:::]:50/digits", "is not a host"],
    ["registry.example.com/", "the name is empty"],
    ["registry.example.com/../digits", "a name is made of"],
  ])("%s is refused", async (text, part) => {
    expect(await failure(() => parseRemoteReference(text))).toContain(part);
  });

  test.each([
    ["localhost", true],
    ["localhost:5000", true],
    ["127.0.0.1:5000", true],
    ["127.8.9.1", true],
    ["[::1]:5000", true],
    ["127.0.0.1.example.com", false],
    ["localhost.example.com", false],
    ["10.0.0.1:5000", false],
  ])("is local: %s, %p", (host, expected) => {
    expect(isLoopback(host)).toBe(expected);
  });
});
