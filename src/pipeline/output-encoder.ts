/** Converts outputs, parts and demo outputs to JSON text, and checks them against their declared schemas. */
import type { ModelFacts } from "../author/define.ts";
import { withBytesOf } from "../author/ndarray-wire.ts";
import { withholding } from "../author/withheld-files.ts";
import * as z from "../author/z.ts";
import { SconceError } from "../base/errors.ts";
import { isObject } from "../base/json.ts";
import { limitFaults } from "../base/schemas/fault-limit.ts";
import { type PlainCheck, plainCheck } from "../base/schemas/plain-check.ts";
import { withoutUnions } from "../base/schemas/zod-issues.ts";
import { MAX_FAULTS } from "./inputs/input-decoder.ts";
import { isLarge, LargeJson } from "./large-json.ts";

/** Maximum faults that an error names. A large array can have a fault for each element. */
const MAX_OUTPUT_FAULTS = 10;

/** How the JSON text of an output shows arrays. */
export interface TextForm {
  /** Output fields whose arrays become data URIs of their bytes. Other arrays become lists of numbers. */
  readonly byteFields: readonly string[];
}

export const listForm: TextForm = { byteFields: [] };

/** JSON text as a string; large JSON as UTF-8 in pieces. */
export type Encoded = string | readonly Uint8Array[];

export function wholeText(text: Encoded): string {
  return typeof text === "string" ? text : Buffer.concat(text).toString();
}

/** An output that is JSON text already. */
class OutputText {
  readonly text: Encoded;

  constructor(text: Encoded) {
    this.text = text;
  }
}

export class OutputEncoder {
  readonly #wires: Readonly<Record<"output" | "part" | "demoOutput", Wire>>;
  readonly #largeJson = new LargeJson();

  constructor({ output, part, demo }: Pick<ModelFacts, "output" | "part" | "demo">) {
    const wire = wireOf(output, "output");
    this.#wires = {
      output: wire,
      part: part ? wireOf(part, "part") : wire,
      demoOutput: demo ? wireOf(demo.output, "demo output") : wire,
    };
  }

  /** Whether outputs should wait, because many large ones are becoming text. */
  get isBehind(): boolean {
    return this.#largeJson.isFull;
  }

  /**
   * Returns a small output as it is. For a large output, returns a promise of its text, made in many turns of the event
   * loop. `encode` takes both.
   */
  forText(made: unknown, form: TextForm): unknown {
    if (!isLarge(made)) return made;
    return this.#largeText(made, (output) => this.#wireIn(form, output)).then((text) => new OutputText(text));
  }

  /** Encodes an output as JSON text. @throws SconceError `output_invalid` when it does not fit the declared output */
  encode(output: unknown, form = listForm): Encoded {
    return output instanceof OutputText ? output.text : JSON.stringify(this.#wireIn(form, output));
  }

  /**
   * Encodes a value as JSON text, by the declared schema of its kind. A large value becomes text in several turns of
   * the event loop.
   * @throws SconceError `output_invalid` when it does not fit the schema
   */
  encodeAs(kind: "output" | "part" | "demoOutput", value: unknown): Encoded | Promise<Encoded> {
    const wire = this.#wires[kind];
    return isLarge(value) ? this.#largeText(value, wire) : JSON.stringify(wire(value));
  }

  #wireIn({ byteFields }: TextForm, output: unknown): unknown {
    if (byteFields.length === 0) return this.#wires.output(output);
    const fields = isObject(output) ? byteFields.map((name) => output[name]) : [];
    // The output may itself be the array of bytes.
    return withBytesOf(new Set([output, ...fields]), () => this.#wires.output(output));
  }

  #largeText(value: unknown, wire: Wire): Promise<Encoded> {
    const { made, files } = withholding(() => wire(value));
    return this.#largeJson.text(made, files);
  }
}

/** Checks a value against its schema, and converts it to its JSON form. */
type Wire = (value: unknown) => unknown;

function wireOf(schema: z.ZodType, name: string): Wire {
  // Without a limit, a million bad elements would make a million faults.
  limitFaults(schema, MAX_FAULTS);
  const isPlain: PlainCheck | undefined = plainCheck(schema);
  return (value) => {
    if (isPlain?.(value)) return value;
    const encoded = z.safeEncode(schema, value);
    if (encoded.success) return encoded.data;
    const issues = withoutUnions(encoded.error.issues);
    const faults = issues
      .slice(0, MAX_OUTPUT_FAULTS)
      .map((issue) => `${[name, ...issue.path].join(".")}: ${issue.message}`);
    if (issues.length > faults.length) faults.push(`and ${issues.length - faults.length} more`);
    throw new SconceError(
      "output_invalid",
      `the model's ${name} does not fit its declared ${name}: ${faults.join("; ")}`,
    );
  };
}
