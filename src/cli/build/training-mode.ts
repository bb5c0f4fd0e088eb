/**
 * Detects programs that were exported in training mode. Dropout, batch normalization and similar layers then compute
 * other values than after `eval()`.
 */
import {
  type Argument,
  bufferMutation,
  innerGraph,
  type Node,
  programSchema,
} from "../../engine/program/program-schema.ts";

type Arguments = ReadonlyMap<string, Argument>;

/**
 * Looks for layers in training mode.
 * @param program the parsed model.json of an exported program
 * @returns a message with the affected layers and a Python fix; undefined when there are none, or the schema is unknown
 */
export function trainingMistake(program: unknown): string | undefined {
  const { data } = programSchema.safeParse(program);
  if (data === undefined) return undefined;
  const { graph, signature } = data.graph_module;
  const found = new Set(layersIn(graph.nodes));
  if (signature.output_specs.some(isStatistic)) found.add(BATCH_NORM);
  if (found.size === 0) return undefined;
  return mistakeOf([...found]);
}

function mistakeOf(layers: readonly string[]): string {
  const isDropout = layers.some((layer) => layer.startsWith(DROPOUT));
  const own = isDropout ? ", and in forward F.dropout(x, training=self.training)" : "";
  return `it was exported in training mode (${layers.join(", ")}): call model.eval() before torch.export.export(model, …)${own}`;
}

const BATCH_NORM = "batch normalization";
const DROPOUT = "dropout";

function layersIn(graph: readonly Node[]): string[] {
  return graph.flatMap(({ target, inputs }) => {
    const inner = inputs.flatMap(({ arg }) => layersIn(innerGraph.safeParse(arg.as_graph).data?.graph.nodes ?? []));
    const layer = layerOf(target, new Map(inputs.map(({ name, arg }) => [name, arg])));
    return layer === undefined ? inner : [layer, ...inner];
  });
}

/**
 * The name of the layer if the operator computes it in training mode; otherwise undefined. Arguments such as `training`
 * show the mode, because many operators share them. A norm without running statistics is omitted: it computes the same
 * after `eval()`.
 */
function layerOf(target: string, args: Arguments): string | undefined {
  const isTrue = (name: string) => args.get(name)?.as_bool === true;
  const isPositive = (name: string) => Number(args.get(name)?.as_float ?? args.get(name)?.as_int ?? 0) > 0;
  const hasStatistics = args.get("running_mean")?.as_tensor !== undefined;
  if (hasStatistics && isTrue("training")) return BATCH_NORM;
  if (hasStatistics && isTrue("use_input_stats")) return "instance normalization";
  if (isPositive("dropout_p")) return `${DROPOUT} of attention`;
  if (isPositive("p") && isTrue("train")) return DROPOUT;
  if (isPositive("dropout") && isTrue("train")) return `${DROPOUT} of a recurrent layer`;
  if (target.includes(".rrelu") && isTrue("training")) return "RReLU";
  return undefined;
}

function isStatistic(output: unknown): boolean {
  const name = bufferMutation.safeParse(output).data?.buffer_mutation.buffer_name;
  return name !== undefined && /(^|\.)(running_mean|running_var|num_batches_tracked)$/.test(name);
}
