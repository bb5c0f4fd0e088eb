/** Starts a build's server on the port and the store of another server. */
import { type Build, type BuildsStore, beyond } from "./builds.ts";
import { type RunningCli, startCli } from "./cli.ts";
import type { PredictionBody } from "./client.ts";
import type { ConnectionLoad } from "./keep-alive.ts";
import type { TempDir } from "./temp-dir.ts";

interface Place {
  readonly dir: TempDir;
  readonly port: number;
}

interface Options {
  readonly env?: Readonly<Record<string, string>>;
  readonly more?: readonly string[];
}

export function serve(
  store: BuildsStore,
  build: Build,
  { dir, port }: Place,
  { env = {}, more = [] }: Options = {},
): RunningCli {
  const options = ["--host", "127.0.0.1", "-p", String(port), "--store", dir.join("p.sqlite")];
  // The older server waits until connections that `fetch` keeps are idle for this long.
  options.push(...more);
  return startCli(["serve", `lab:${build}`, ...options], {
    env: { SCONCE_HOME: store.home, TMPDIR: dir.path, ...env },
  });
}

/** Reference of the build that a prediction names. */
export const nameOf = ({ model }: PredictionBody) => `${model?.repository}:${model?.tag}`;

export const buildOf = (store: BuildsStore, body: PredictionBody): Build =>
  nameOf(body) === store.names.v1 ? "v1" : "v2";

/** Answers whose output is from another build than the build that they name. */
export const wrongAnswers = (store: BuildsStore, { answers }: ConnectionLoad) =>
  answers.filter(({ x, body }) => body.outputs?.[0]?.y !== 2 * x + 1 + beyond[buildOf(store, body)]);
