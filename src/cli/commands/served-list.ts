/** Finds the models to serve, from the command line and from the file in `--models`. */
import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { repositoryPattern } from "../../author/name.ts";
import { closest } from "../../base/closest.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import type { Option } from "../../base/option.ts";
import type { ModelSource } from "../../package/model-source.ts";
import type { PackagedModel } from "../../package/store/packaged-model.ts";
import { type ServeConfig, serveOptions } from "../../server/config.ts";
import type { ServedOptions } from "../../server/model-table.ts";
import { flagName, usage } from "../command-line/command.ts";
import { pathGiven } from "../command-line/model-path.ts";
import { namedModel } from "./named-model.ts";

/** Options that a file may set for a single model. All other options are for the whole server. */
const ownOptions = [
  "param",
  "batchSize",
  "device",
  "instances",
  "threads",
  "maxQueueDelay",
  "latencyTarget",
  "batchTimeout",
  "retainAge",
  "queueName",
  "timeout",
] as const satisfies readonly (keyof typeof serveOptions)[];

interface Listed {
  /** Reference of the model; undefined if neither the command line nor --models names a model. */
  readonly reference: string | undefined;
  readonly name: string | undefined;
  readonly options: Partial<ServeConfig>;
}

/**
 * Finds all models to serve, with their options.
 * @param given references on the command line
 * @throws SconceError `usage` for two models with one name or a faulty file; other codes for a model that is not found
 */
export async function servedList(
  source: ModelSource,
  given: readonly string[],
  options: ServeConfig & Pick<Parameters<typeof namedModel>[2], "input">,
): Promise<readonly [ServedOptions, ...ServedOptions[]]> {
  const listed = [
    ...given.map((reference): Listed => ({ reference, name: undefined, options: {} })),
    ...(options.models === undefined ? [] : await inFile(options.models)),
  ];
  if (listed.length === 0) listed.push({ reference: undefined, name: undefined, options: {} });
  if (listed.length > 1 && (options.input ?? []).length > 0) throw usage("--input is for a single weights file");
  const found: { packaged: PackagedModel; listed: Listed }[] = [];
  for (const each of listed) {
    const packaged = await namedModel(source, each.reference, { ...options, withoutWeights: options.role === "front" });
    found.push({ packaged, listed: each });
  }
  const names = namesOf(found);
  const served = found.map(({ packaged, listed: { options: own } }, i) => ({
    name: names[i] ?? "",
    packaged,
    options: own,
  }));
  const [first, ...others] = served;
  if (first === undefined) throw usage("there is no model to serve");
  checkQueues(served, options);
  return [first, ...others];
}

/** Refuses models that share a queue, because they would run each other's predictions. @throws SconceError `usage` */
function checkQueues(served: readonly ServedOptions[], { queueName }: ServeConfig): void {
  for (const [queue, models] of Map.groupBy(served, ({ options: own }) => own.queueName ?? queueName)) {
    if (queue === undefined || models.length === 1) continue;
    const names = models.map(({ name }) => name).join(" and ");
    throw usage(
      `${names} have the queue ${queue}: a name of --queue-name is for one model; --models FILE can give each its own`,
    );
  }
}

/**
 * Names for the models: the listed name, otherwise the repository. Several builds of a repository without listed names
 * also get the tag.
 * @throws SconceError `usage` for two equal names
 */
function namesOf(found: readonly { readonly packaged: PackagedModel; readonly listed: Listed }[]): string[] {
  const counts = Map.groupBy(found, ({ packaged, listed }) => listed.name ?? packaged.repository);
  const names = found.map(({ packaged: { repository, tag }, listed }) => {
    const isShared = (counts.get(repository)?.length ?? 0) > 1;
    return listed.name ?? (isShared ? `${repository}:${tag}` : repository);
  });
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) {
    throw usage(`two models have the name ${twice}; in a file of --models, each can get its own name`);
  }
  return names;
}

/** Reads the models in the file of `--models`. @throws SconceError `usage` */
async function inFile(path: string): Promise<Listed[]> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw usage(`the models of --models cannot be read: ${messageOf(error)}`);
  }
  try {
    return fileSchema.parse(Bun.TOML.parse(text)).model.map((entry) => listedOf(entry, path));
  } catch (error) {
    if (error instanceof SconceError) throw error;
    const fault = error instanceof z.ZodError ? z.prettifyError(error) : messageOf(error);
    throw usage(`${path} has no valid list of models: ${fault}`);
  }
}

const entrySchema = z.looseObject({
  model: z.string().min(1),
  name: z.string().regex(repositoryPattern, "must be a name like that of a model, e.g. digits").optional(),
});
const fileSchema = z.strictObject({ model: z.array(entrySchema).min(1) });

function listedOf({ model, name, ...given }: z.infer<typeof entrySchema>, path: string): Listed {
  const known = new Map<string, (typeof ownOptions)[number]>(ownOptions.map((key) => [flagName(key), key]));
  const options = Object.entries(given).map(([flag, value]) => {
    const key = known.get(flag);
    if (key === undefined) {
      const near = closest(flag, ["name", ...known.keys()]);
      throw usage(
        `${path}: ${model} has the unknown option ${flag}${near === undefined ? "" : `; did you mean ${near}?`}`,
      );
    }
    const { parse }: Option<unknown> = serveOptions[key];
    const text = Array.isArray(value) ? value.map(String).join("\n") : String(value);
    const parsed = parse.safeParse(text);
    if (!parsed.success)
      throw usage(`${path}: ${flag} of ${model} ${parsed.error.issues[0]?.message ?? "is malformed"}`);
    return [key, parsed.data];
  });
  return { reference: pathGiven(model, dirname(path)) ?? model, name, options: Object.fromEntries(options) };
}
