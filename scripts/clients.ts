/**
 * Tries real clients on real servers: `npm run clients -- NAME… [--seed N] [--seconds N] [--only EXAMPLE]`. Without a
 * name, tries all.
 */
import { parseArgs } from "node:util";
import { generatedClients } from "./clients/generated.ts";
import { mcpClients } from "./clients/mcp.ts";
import { openTelemetry } from "./clients/open-telemetry.ts";
import { openaiClients } from "./clients/openai.ts";
import { schemathesis } from "./clients/schemathesis.ts";
import { v2Clients } from "./clients/v2.ts";

const { values, positionals: names } = parseArgs({
  args: process.argv.slice(2),
  allowPositionals: true,
  options: {
    /** The options `seed`, `seconds` and `only` are for the trial `schemathesis`. */
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    seconds: { type: "string", default: "60" },
    only: { type: "string" },
  },
});

const trials: Readonly<Record<string, () => Promise<void>>> = {
  generated: generatedClients,
  mcp: mcpClients,
  openai: openaiClients,
  schemathesis: () => schemathesis({ seed: Number(values.seed), seconds: Number(values.seconds), only: values.only }),
  v2: v2Clients,
  "open-telemetry": openTelemetry,
};

for (const name of names.length > 0 ? names : Object.keys(trials)) {
  const trial = trials[name];
  if (trial === undefined)
    throw new Error(`there is no trial "${name}": expected some of ${Object.keys(trials).join(", ")}`);
  await trial();
}
