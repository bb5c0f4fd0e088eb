/**
 * The inputs and outputs of an AOTInductor package, from the pytree specs that PyTorch writes as JSON into the package's
 * C++ source.
 */
import { z } from "zod";
import { SconceError } from "../../base/errors.ts";

export interface PackageOrder {
  /** For each input of the package: the place of the declared input. */
  readonly inputs: readonly number[];
  /** For each declared output: its place among the outputs of the package. */
  readonly outputs: readonly number[];
}

/** A tree of tensors. A leaf, which is a tensor, has no type. */
interface Container {
  readonly type: string | null;
  readonly context?: string | null | undefined;
  readonly children_spec: readonly Container[];
}
const container: z.ZodType<Container> = z.looseObject({
  type: z.string().nullable(),
  context: z.string().nullish(),
  children_spec: z.array(z.lazy(() => container)).default([]),
});
const version = z.number();
const inputSpec = z.tuple([version, z.looseObject({ children_spec: z.tuple([container, container]) })]);
const outputSpec = z.tuple([version, container]);
const keys = z.array(z.unknown());

/**
 * Matches a package's inputs and outputs with the declared ones. The tensors of a nested input or output count in
 * PyTorch's order.
 * @param source the package's C++ source
 * @throws SconceError `weights_invalid` if names or counts differ, or if the source has no readable specs
 */
export function packageOrder(
  source: string,
  declared: { readonly inputs: readonly string[]; readonly outputs: readonly string[] },
): PackageOrder {
  const [, { children_spec: parts }] = parsed(inputSpec, source, "in_spec_");
  const [, result] = parsed(outputSpec, source, "out_spec_");
  const [positional, named] = parts;
  return {
    inputs: inputPlaces(leavesOf(positional), namesOf(named), declared.inputs),
    outputs: outputPlaces(result, declared.outputs),
  };
}

/** The names in a package's specs; none if the source has no readable specs. */
export interface PackageNames {
  /** Keyword inputs, which follow the positional inputs. */
  readonly inputs: readonly string[];
  /** Outputs, if the package returns a dict or a named tuple. */
  readonly outputs: readonly string[];
}

export function packageNames(source: string): PackageNames {
  try {
    const [, { children_spec: parts }] = parsed(inputSpec, source, "in_spec_");
    const [, result] = parsed(outputSpec, source, "out_spec_");
    return { inputs: keysOf(parts[1]), outputs: keysOf(result) };
  } catch {
    return { inputs: [], outputs: [] };
  }
}

/** Parses a spec. A long one consists of several raw strings. */
function parsed<T>(schema: z.ZodType<T>, source: string, name: string): T {
  const text = new RegExp(`\\b${name} =\\s*((?:R"\\(.*?\\)"\\s*)+);`, "s").exec(source)?.[1];
  if (text === undefined) throw invalid("the package has no call specification");
  const json = Array.from(text.matchAll(/R"\((.*?)\)"/gs), ([, part]) => part).join("");
  try {
    return schema.parse(JSON.parse(json));
  } catch (error) {
    throw invalid("the package's call specification is not what PyTorch writes", error);
  }
}

/** Number of tensors in a tree. */
function leavesOf({ type, children_spec: children }: Container): number {
  return type === null ? 1 : children.reduce((sum, child) => sum + leavesOf(child), 0);
}

/** Names of the keyword inputs. */
function namesOf(named: Container): string[] {
  const names = keysOf(named);
  const nested = named.children_spec.findIndex(({ type }) => type !== null);
  if (nested < 0) return names;
  throw invalid(
    `the input "${names[nested]}" of the package is a ${named.children_spec[nested]?.type}, by name; export it as an argument by order, or as tensors`,
  );
}

/** The keys of a dict, which PyTorch writes as JSON inside a string; none for other containers. */
function keysOf({ context }: Container): string[] {
  if (!context?.startsWith("[")) return [];
  try {
    return keys.parse(JSON.parse(context)).map(String);
  } catch (error) {
    throw invalid("the package's call specification is not what PyTorch writes", error);
  }
}

function inputPlaces(positional: number, named: readonly string[], declared: readonly string[]): number[] {
  const both = `the package takes ${positional} inputs by order and ${listed(named)} by name, the model declares the inputs ${listed(declared)}`;
  if (declared.length !== positional + named.length) throw invalid(both);
  const first = [...declared.keys()].filter((place) => !named.includes(declared[place] ?? ""));
  if (first.length !== positional) throw invalid(`${both}: rename one of them`);
  return [...first, ...named.map((name) => declared.indexOf(name))];
}

function outputPlaces(result: Container, declared: readonly string[]): number[] {
  const count = leavesOf(result);
  if (count !== declared.length) {
    const given = count === 1 ? "1 output" : `${count} outputs`;
    throw invalid(`the weights give ${given}, the model declares ${declared.length} ${listed(declared)}`);
  }
  const names = keysOf(result);
  if (names.length !== count) return [...declared.keys()];
  const missing = declared.find((name) => !names.includes(name));
  if (missing !== undefined) {
    throw invalid(
      `output "${missing}" is missing: the weights give ${listed(names)}, the model declares the outputs ${listed(declared)}`,
    );
  }
  return declared.map((name) => names.indexOf(name));
}

function listed(names: readonly string[]): string {
  return `(${names.join(", ")})`;
}

function invalid(message: string, cause?: unknown): SconceError {
  return new SconceError("weights_invalid", message, { cause });
}
