import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SconceError } from "../src/base/errors.ts";
import { formatReference, generatedTag, parseReference } from "../src/package/store/reference.ts";
import { failureOf } from "./helpers/failure.ts";

const digest = `sha256:${"0123456789abcdef".repeat(4)}`;
const component = fc.stringMatching(/^[a-z0-9]{1,8}((\.|_|__|-{1,3})[a-z0-9]{1,8}){0,2}$/);
const repository = fc.array(component, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/"));
const tag = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,40}$/);

describe("a model reference", () => {
  test("is the same after formatting and parsing", () => {
    const reference = fc.oneof(
      fc.record({ repository, tag }, { noNullPrototype: true }),
      fc.record({ repository, digest: fc.constant(digest) }, { noNullPrototype: true }),
    );
    fc.assert(fc.property(reference, (value) => expect(parseReference(formatReference(value))).toEqual(value)));
  });

  test("of any text is parsed, or refused as wrong usage", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(..."ab:@/._-A2 ") })), (text) => {
        try {
          const reference = parseReference(text);
          expect(formatReference(reference)).toBe(
            "tag" in reference && !/:[^/]*$/.test(text) ? `${text}:latest` : text,
          );
        } catch (error) {
          expect(error).toBeInstanceOf(SconceError);
          expect(error).toHaveProperty("code", "usage");
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe("a misspelled model reference", () => {
  const faults: [text: string, message: string][] = [
    ["", "the name is empty"],
    [":v1", "the name is empty"],
    ["digits:", "leave the colon out"],
    ["Digits:v1", 'did you mean "digits:v1"?'],
    ["digits v1", "a name is made of a-z and 0-9"],
    ["-digits", "a name is made of"],
    ["digits-", "a name is made of"],
    ["dig..its", "a name is made of"],
    ["dig___its", "a name is made of"],
    ["/digits", "a name is made of"],
    ["a//b", "a name is made of"],
    ["../digits", "a name is made of"],
    ["digits:-v1", "a tag is 1 to 128 of"],
    ["digits:a/b", "a tag is 1 to 128 of"],
    [`digits:${"a".repeat(129)}`, "a tag is 1 to 128 of"],
    ["digits:v1:v2", "a tag is 1 to 128 of"],
    ["digits@sha256:abc", '"sha256:" and 64 hex digits'],
    [`digits@${digest.toUpperCase()}`, '"sha256:" and 64 hex digits'],
    [`digits:v1@${digest}`, "a tag or a digest, not both"],
    ["a".repeat(256), "256 characters; at most 255"],
  ];
  test.each(faults)("%p is refused with the fault", async (text, message) => {
    const error = await failureOf(() => parseReference(text));
    expect(error.code).toBe("usage");
    expect(error.message).toContain(message);
  });
});

test("the generated tag is the first 12 hex digits of the digest", () => {
  expect(generatedTag(digest)).toBe("0123456789ab");
});
