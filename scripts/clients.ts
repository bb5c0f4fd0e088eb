/** Tries real clients on real servers: `npm run clients -- NAME…`, by default all of them. */
import { generatedClients } from "./clients/generated.ts";
import { openTelemetry } from "./clients/open-telemetry.ts";
import { openaiClients } from "./clients/openai.ts";
import { v2Clients } from "./clients/v2.ts";

const trials: Readonly<Record<string, () => Promise<void>>> = {
  generated: generatedClients,
  openai: openaiClients,
  v2: v2Clients,
  "open-telemetry": openTelemetry,
};

const names = process.argv.slice(2);
for (const name of names.length > 0 ? names : Object.keys(trials)) {
  const trial = trials[name];
  if (trial === undefined)
    throw new Error(`there is no trial "${name}": expected some of ${Object.keys(trials).join(", ")}`);
  await trial();
}
