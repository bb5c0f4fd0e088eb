/** Set-up if something changed, then the command line in this same process: a second one would cost its start-up time. */

import { setup } from "./setup.ts";

await setup();
const { main } = await import("../src/cli.ts");
await main(process.argv.slice(2));
