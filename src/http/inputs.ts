/** From a request's body to decoded inputs, or to a problem that names every fault. */
import type { Context } from "hono";
import { type PlainCheck, plainCheck } from "../model/plain-check.ts";
import type * as z from "../model/z.ts";
import { type Fault, ProblemError } from "./problem.ts";

export interface InputLimits {
  readonly maxBodyBytes: number;
  readonly maxInputs: number;
}

export interface Inputs {
  readonly inputs: unknown[];
  /** Bytes of the body. */
  readonly bytes: number;
}

/** A body can hold more faults than anyone reads; more would only make a small request a large answer. */
const MAX_FAULTS = 1000;

/** Reads request bodies that are JSON arrays of `input`. */
export class InputReader {
  readonly #limits: InputLimits;
  readonly #input: z.ZodType;
  readonly #isPlain: PlainCheck | undefined;

  constructor(input: z.ZodType, limits: InputLimits) {
    this.#limits = limits;
    this.#input = input;
    this.#isPlain = plainCheck(input);
  }

  /** @throws ProblemError 400, 413, 415 or 422 */
  async read(c: Context): Promise<Inputs> {
    const { raw } = c.req;
    checkMediaType(raw.headers);
    const { text, bytes } = await readText(raw, this.#limits.maxBodyBytes);
    return { inputs: this.#decode(this.#listOf(parseJson(text))), bytes };
  }

  #decode(list: readonly unknown[]): unknown[] {
    const inputs: unknown[] = [];
    const faults: Fault[] = [];
    for (const [index, element] of list.entries()) {
      if (this.#isPlain?.(element)) {
        inputs.push(element);
        continue;
      }
      const parsed = safeParse(this.#input, element);
      if (parsed.success) inputs.push(parsed.data);
      else for (const issue of parsed.error.issues) addFaults(faults, issue, [index]);
      // Beyond what is listed nothing more is looked for: finding a fault costs far more than finding none.
      if (faults.length > MAX_FAULTS) break;
    }
    if (faults.length > 0) throw unfit(faults);
    return inputs;
  }

  /** Before every element is looked at: a list that is too long is refused for its length alone. */
  #listOf(body: unknown): readonly unknown[] {
    const { maxInputs } = this.#limits;
    if (!Array.isArray(body)) {
      throw unfit([
        { pointer: "", detail: `expected a list of inputs, received ${nameOf(body)}; put a single input in [ ]` },
      ]);
    }
    if (body.length === 0)
      throw unfit([{ pointer: "", detail: "expected at least one input, received an empty list" }]);
    if (body.length > maxInputs) {
      throw unfit([
        {
          pointer: "",
          detail: `expected at most ${maxInputs} inputs, received ${body.length}; send them in several requests`,
        },
      ]);
    }
    return body;
  }
}

function checkMediaType(headers: Headers): void {
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity") {
    throw new ProblemError({
      status: 415,
      title: "Unsupported media type",
      code: "unsupported_media_type",
      detail: `expected a body without Content-Encoding, received ${JSON.stringify(encoding)}`,
      headers: { "Accept-Encoding": "identity" },
    });
  }
  const given = headers.get("content-type");
  if (given === "application/json" || given?.split(";", 1)[0]?.trim().toLowerCase() === "application/json") return;
  throw new ProblemError({
    status: 415,
    title: "Unsupported media type",
    code: "unsupported_media_type",
    detail: `expected the header Content-Type: application/json, received ${given === null ? "none" : JSON.stringify(given)}`,
  });
}

interface Body {
  readonly text: string;
  readonly bytes: number;
}

async function readText(request: Request, maxBytes: number): Promise<Body> {
  const length = request.headers.get("content-length");
  if (length !== null && Number(length) > maxBytes) throw tooLarge(maxBytes);
  try {
    return await (length === null ? readChunks(request, maxBytes) : readWhole(request, Number(length)));
  } catch (error) {
    if (error instanceof ProblemError) throw error;
    throw badRequest("body_incomplete", "the body ended before the length that was announced for it", error);
  }
}

async function readWhole(request: Request, bytes: number): Promise<Body> {
  const text = await request.text();
  // What was not UTF-8 was replaced, by something of another length.
  if (text.includes("\uFFFD") && Buffer.byteLength(text) !== bytes) throw notUtf8();
  return { text, bytes };
}

/** A chunked body tells its size only by coming to its end. */
async function readChunks(request: Request, maxBytes: number): Promise<Body> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks)), bytes };
  } catch (error) {
    throw notUtf8(error);
  }
}

function notUtf8(cause?: unknown): ProblemError {
  return badRequest("not_json", "the body is not JSON: it is not UTF-8", cause);
}

function badRequest(code: string, detail: string, cause?: unknown): ProblemError {
  return new ProblemError({ status: 400, title: "Bad request", code, detail }, { cause });
}

function tooLarge(maxBytes: number): ProblemError {
  return new ProblemError({
    status: 413,
    title: "Content too large",
    code: "body_too_large",
    detail: `a body may have at most ${maxBytes} bytes`,
  });
}

function parseJson(text: string): unknown {
  if (text === "") throw badRequest("not_json", "expected a JSON list of inputs, received an empty body");
  try {
    return JSON.parse(text);
  } catch (error) {
    throw badRequest("not_json", `the body is not JSON: ${reasonOf(error)}`, error);
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof RangeError) return "it is nested too deeply";
  return error instanceof Error ? error.message.replace(/^JSON Parse error: /, "") : "it cannot be parsed";
}

function unfit(faults: readonly Fault[]): ProblemError {
  const shown = faults.slice(0, MAX_FAULTS);
  const [first] = shown;
  const count = faults.length > MAX_FAULTS ? `more than ${MAX_FAULTS} faults` : `${faults.length} faults`;
  const one = first === undefined ? "" : `${first.pointer === "" ? "" : `${first.pointer}: `}${first.detail}`;
  return new ProblemError({
    status: 422,
    title: "Unprocessable content",
    code: "inputs_invalid",
    detail: faults.length === 1 ? one : `${count}, the first: ${one}`,
    errors: shown,
  });
}

/** @throws ProblemError 422 for an input that is nested more deeply than the schema can be followed */
function safeParse(schema: z.ZodType, input: unknown) {
  try {
    return schema.safeParse(input);
  } catch (error) {
    if (error instanceof RangeError) throw unfit([{ pointer: "", detail: "an input is nested too deeply" }]);
    throw error;
  }
}

/** A zod issue as faults: one for each unknown field, and for a union those of its nearest option. */
function addFaults(faults: Fault[], issue: z.core.$ZodIssue, base: readonly PropertyKey[]): void {
  const path = [...base, ...issue.path];
  if (issue.code === "unrecognized_keys") {
    const keys = issue.keys.slice(0, MAX_FAULTS + 1);
    for (const key of keys) faults.push({ pointer: pointerTo([...path, key]), detail: "is not a field of this input" });
    return;
  }
  if (issue.code === "invalid_union" && issue.errors.length > 0) {
    const nearest = issue.errors.reduce((best, option) => (option.length < best.length ? option : best));
    for (const inner of nearest) addFaults(faults, inner, path);
    if (nearest.length > 0) return;
  }
  faults.push({ pointer: pointerTo(path), detail: detailOf(issue.message) });
}

/** zod's message in the words of all the others: what was expected, what was received. */
function detailOf(message: string): string {
  return message.replace(/^Invalid input: /, "").replace(/received undefined$/, "but it is missing");
}

function pointerTo(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function nameOf(value: unknown): string {
  if (value === null) return "null";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
