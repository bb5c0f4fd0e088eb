/** The program of a checkout, without its set-up; a compiled executable has `executable/main.ts`. */
import { main } from "./cli.ts";

await main(process.argv.slice(2));
