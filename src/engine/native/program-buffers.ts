/** Finds the buffers that a run of an exported program changes, so that the next run reads other values. */
import { Archive } from "./archive.ts";
import { programFile } from "./program.ts";
import { weightOf } from "./program-inputs.ts";
import { bufferMutation, innerGraph, inputSpec, type Node, named, programSchema } from "./program-schema.ts";

/** An operator whose name ends with `_` writes its result into its first argument. */
const WRITING = /^torch\.ops\.\w+\.[a-z]\w*[a-z\d]_\.\w+$/;
/** Operators that return a view of their first argument. `reshape` and `flatten` usually do. */
const VIEWING =
  /^torch\.ops\.aten\.(alias|as_strided|chunk|detach|diagonal|expand|flatten|movedim|narrow|permute|reshape|select|slice|split|split_with_sizes|squeeze|t|transpose|unbind|unflatten|unfold|unsqueeze|view|view_as)\.\w+$/;

/**
 * Names of the changed buffers, in the order of the program; empty if the file is no exported program of the known
 * schema.
 */
export function changedBuffers(path: string): string[] {
  const program = programSchema.safeParse(JSON.parse(Archive.open(path)?.text(programFile) ?? "null")).data;
  if (program === undefined) return [];
  const { graph, signature } = program.graph_module;
  const tensors = new Map<string, string>();
  for (const spec of signature.input_specs) {
    const { data } = inputSpec.safeParse(spec);
    const weight = data && weightOf(data);
    if (weight !== undefined) tensors.set(weight.value, weight.name);
  }
  const inSignature = signature.output_specs.flatMap(
    (spec) => bufferMutation.safeParse(spec).data?.buffer_mutation.buffer_name ?? [],
  );
  const changed = new Set([...inSignature, ...written(graph.nodes, tensors)]);
  return [...new Set(tensors.values())].filter((name) => changed.has(name));
}

/**
 * Names of the buffers that the nodes write.
 * @param tensors buffers and views of buffers, by the names of their values in the graph
 */
function written(nodes: readonly Node[], tensors: Map<string, string>): string[] {
  return nodes.flatMap(({ target, inputs, outputs }) => {
    const names = inputs.map(({ arg }) => named.safeParse(arg.as_tensor).data?.name);
    const at = inputs.findIndex(({ arg }) => "as_graph" in arg);
    if (at >= 0) {
      const { data } = innerGraph.safeParse(inputs[at]?.arg.as_graph);
      if (data === undefined) return [];
      const buffers = names.slice(at + 1).map((name) => tensors.get(name ?? ""));
      const inner = data.graph.inputs.flatMap((input, i): [string, string][] => {
        const name = named.safeParse(input.as_tensor).data?.name;
        const buffer = buffers[i];
        return name === undefined || buffer === undefined ? [] : [[name, buffer]];
      });
      return written(data.graph.nodes, new Map(inner));
    }
    const buffer = tensors.get(names[0] ?? "");
    if (buffer === undefined) return [];
    const isWriting = WRITING.test(target);
    if (isWriting || VIEWING.test(target)) for (const name of outputNames(outputs)) tensors.set(name, buffer);
    return isWriting ? [buffer] : [];
  });
}

function outputNames(outputs: Node["outputs"]): string[] {
  return outputs.flatMap(({ as_tensor: one, as_tensors: several }) =>
    [one, several].flat().flatMap((value) => named.safeParse(value).data?.name ?? []),
  );
}
