/** Saves the output, or a field of it. The file's extension decides between JSON and NumPy. */
import { writeFile } from "node:fs/promises";
import type { SchemaNode } from "../../../base/json-schema.ts";
import { usage } from "../../command-line/command.ts";
import { formatJson } from "../../command-line/table.ts";
import { npyOf } from "./npy.ts";
import { isNumbers, isWhole, pathsOf } from "./schema.ts";

export class ValueTarget {
  readonly #path: string;
  /** Keys that lead from the root of the output to the saved value. */
  readonly #keys: readonly string[];
  /** How to write a NumPy file; undefined for JSON. */
  readonly #npy: { readonly isWhole: boolean } | undefined;

  /**
   * @param name name of the field, e.g. `output.scores`. Default: the whole output, or for NumPy its only array
   * @throws SconceError `usage` when the schema has no such value
   */
  constructor(path: string, name: string | undefined, schema: SchemaNode) {
    this.#path = path;
    const isNpy = /\.npy$/i.test(path);
    const field = name ?? (isNpy ? onlyArray(schema) : "");
    this.#keys = field === "" ? [] : field.split(".");
    const node = this.#keys.reduce<SchemaNode | undefined>(
      (each, key) =>
        each && /^\d+$/.test(key) && each.types.has("array") ? each.element(Number(key)) : each?.field(key),
      schema,
    );
    if (node === undefined)
      throw usage(`the output has no field ${field}; it has ${[...schema.fields.keys()].join(", ")}`);
    if (isNpy && !isNumbers(node))
      throw usage(`${field} of the output is no array of numbers, as ${path} is; save it as .json`);
    this.#npy = isNpy ? { isWhole: isWhole(node) } : undefined;
  }

  async save(output: unknown): Promise<void> {
    const value = this.#keys.reduce<unknown>(member, output);
    await writeFile(this.#path, this.#npy === undefined ? `${formatJson(value)}\n` : npyOf(value, this.#npy));
  }

  /** The output, with the path in place of the saved value. */
  replacedIn(output: unknown): unknown {
    return replaced(output, this.#keys, this.#path);
  }
}

/** Whether the extension means that a value is saved, not a file. */
export function isForValues(path: string): boolean {
  return /\.(json|npy)$/i.test(path);
}

function onlyArray(schema: SchemaNode): string {
  const all = pathsOf(schema, isNumbers).filter((path) => !path.includes("*"));
  const [first, second] = all;
  if (first === undefined) throw usage("the output has no array of numbers to save as .npy; save it as .json");
  if (second !== undefined)
    throw usage(`the output has several arrays (${all.join(", ")}); say which one with -o ${first}=FILE`);
  return first;
}

function member(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

function replaced(value: unknown, [key, ...rest]: readonly string[], path: string): unknown {
  if (key === undefined) return path;
  if (typeof value !== "object" || value === null) return value;
  const inner = replaced(member(value, key), rest, path);
  return Array.isArray(value) ? value.with(Number(key), inner) : { ...value, [key]: inner };
}
