/** `sconce dev [DIR]`: serves a folder, and loads it again after each change. */
import { statSync } from "node:fs";
import { option } from "../../base/option.ts";
import { modelStore } from "../../package/model-source.ts";
import { fixedLimits, type ServeConfig, serveGroups, serveOptions } from "../../server/config.ts";
import { externalOption } from "../build/trial-options.ts";
import { command, usage } from "../command-line/command.ts";
import { DevServer } from "./dev/dev-server.ts";
import { stopOnSignals } from "./serve.ts";

/** Removes the options of `serve` that make no sense for a folder that is not packaged. `shared` gets the rest. */
const { fronts, store, storeSync, queue, queueName, queueLease, role, ...others } = serveOptions;
const { models, keepAlive, maxLoaded, takeOver, adminPort, host, port, ...shared } = others;

/** Options of `dev`. It listens on loopback by default, because a model under development should not be public. */
const options = { port, host: option({ ...host, default: "127.0.0.1" }), ...shared };

const fixed = {
  ...fixedLimits,
  fronts: 1,
  store: "memory",
  storeSync: storeSync.default,
  queue: undefined,
  queueName: undefined,
  queueLease: queueLease.default,
  role: role.default,
  models: undefined,
  keepAlive: undefined,
  maxLoaded: undefined,
  adminPort: undefined,
  takeOver: takeOver.default,
} satisfies Partial<ServeConfig>;

export const dev = command({
  details: `The command packages nothing. When model.ts, an imported file, an asset or the weights change, the server loads the new version beside the old one. The old version serves until the new version is ready, and finishes its requests. If only code changes, the weights stay loaded. If the new code has an error, the command prints it in one line with its place in model.ts, and the last working version continues. The port opens with the first version that works. A new name of the model needs a restart of the command. The command accepts the options of serve that make sense for a folder.`,
  example: `sconce dev
sconce dev examples/digits --port 8080`,
  // Headings by the first option of each group. `dev` lacks some first options of `serve`, so other options take their
  // place.
  groups: { ...serveGroups, batchTimeout: "Processes", retainAge: "Storage", external: "Model" },
  isServer: true,
  options: { external: externalOption, ...options },
  positionals: [{ name: "dir", description: "The model's folder; default: this folder", required: false }],
  async run({ options: given, positionals: [dir = "."] }) {
    if (!statSync(dir, { throwIfNoEntry: false })?.isDirectory()) throw usage(`${dir} is not a folder`);
    const { external: externals, ...config } = given;
    await modelStore.unpackLibraries();
    const server = await DevServer.open({ dir, externals }, { ...config, ...fixed });
    stopOnSignals(() => server.stop());
    await server.start();
  },
});
