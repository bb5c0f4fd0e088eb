/** Invalid requests to a model whose input is an object with one string field. */

export interface BadRequest {
  readonly name: string;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly status: number;
  /** End of the problem's type, after `urn:sconce:problem:`. */
  readonly code: string;
  /** JSON pointers of all faults in the body; undefined if the fault is not in a single value. */
  readonly pointers?: readonly string[];
}

export interface Sample {
  /** Name of the model's only input field. */
  readonly field: string;
  /** A valid value of the field. */
  readonly value: string;
  /** The server's limit for inputs in one request. */
  readonly maxInputs: number;
  readonly maxBodyBytes: number;
}

export function badRequests({ field, value, maxInputs, maxBodyBytes }: Sample): BadRequest[] {
  const good = { [field]: value };
  const quoted = JSON.stringify(value);
  const notJson = (name: string, body: unknown) => ({ name, body, status: 400, code: "not_json" });
  const header = (name: string, headers: Record<string, string>, status: number, code: string) => ({
    name,
    body: [good],
    headers,
    status,
    code,
  });
  const unfit = (name: string, body: unknown, ...pointers: string[]) => ({
    name,
    body,
    status: 422,
    code: "inputs_invalid",
    pointers,
  });
  const deep = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
  return [
    notJson("nothing", ""),
    notJson("a word", "x=1"),
    notJson("half a list", `[{"${field}": ${quoted}}`),
    notJson("half an input", `[{"${field}": ${quoted.slice(0, -1)}`),
    notJson("NaN", `[{"${field}": NaN}]`),
    notJson("minus Infinity", `[{"${field}": -Infinity}]`),
    notJson("a trailing comma", `[{"${field}": ${quoted}},]`),
    notJson("a line break within a string", `[{"${field}": "a\nb"}]`),
    notJson("what is not UTF-8", Buffer.from(`[{"${field}": "\xff"}]`, "latin1")),
    notJson("brackets that never close", "[".repeat(100_000)),
    header(
      "a form without parts",
      { "Content-Type": "application/x-www-form-urlencoded" },
      415,
      "unsupported_media_type",
    ),
    header("no form", { "Content-Type": "multipart/form-data; boundary=x" }, 400, "body_unreadable"),
    header("an unknown Content-Encoding", { "Content-Encoding": "compress" }, 415, "unsupported_media_type"),
    header("two Content-Encodings", { "Content-Encoding": "gzip, br" }, 415, "unsupported_media_type"),
    header("what is not compressed", { "Content-Encoding": "gzip" }, 400, "body_unreadable"),
    header("a time limit that is none", { "Cancel-After": "soon" }, 400, "bad_header"),
    { name: "a body that is too large", body: `[${" ".repeat(maxBodyBytes)}]`, status: 413, code: "body_too_large" },
    unfit("an empty list", [], ""),
    unfit("too many inputs", Array(maxInputs + 1).fill(good), ""),
    unfit("an input without a list", good, ""),
    unfit("a number", 7, ""),
    unfit("null", null, ""),
    unfit("a string", quoted, ""),
    unfit("inputs that are no objects", [good, 1, null, value, [good]], "/1", "/2", "/3", "/4"),
    unfit("a number for the field", [{ [field]: 7 }], `/0/${field}`),
    unfit("a number beyond all numbers (1e400)", `[{"${field}": 1e400}]`, `/0/${field}`),
    unfit("null for the field", [{ [field]: null }], `/0/${field}`),
    unfit("a list for the field", [{ [field]: [value] }], `/0/${field}`),
    unfit("an object for the field", [good, { [field]: { [field]: { [field]: value } } }], `/1/${field}`),
    unfit("a missing field", [good, {}], `/1/${field}`),
    unfit("an unknown field", [{ ...good, size: 1 }, good], "/0/size"),
    unfit("an unknown field with much in it", [{ ...good, size: { of: [{ what: null }] } }], "/0/size"),
    unfit("unknown fields that need escaping", [{ ...good, "a/b~c": 1, "": 2 }], "/0/", "/0/a~1b~0c"),
    unfit("half a character for a name", `[{"${field}": ${quoted}, "\\ud800": 1}]`, "/0/\ud800"),
    unfit("a field that objects inherit", `[{"${field}": ${quoted}, "__proto__": {"x": 1}}]`, "/0/__proto__"),
    unfit("every fault of every input", [{}, good, { ...good, a: 1 }, 3], `/0/${field}`, "/2/a", "/3"),
    unfit("1,000 levels of lists", deep(1000), "/0"),
    unfit("1,000 levels in the field", `[{"${field}": ${deep(1000)}}]`, `/0/${field}`),
    unfit("1,000 levels in an unknown field", `[{"${field}": ${quoted}, "a": ${deep(1000)}}]`, "/0/a"),
  ];
}
