/** Prints client types of a document: `bun client-types.ts openapi.json` prints the output of openapi-typescript. */
import { pathToFileURL } from "node:url";

// openapi-typescript needs the compiler API, which the TypeScript of this project no longer has.
Bun.plugin({
  name: "typescript-5",
  setup(build) {
    build.module("typescript", async () => ({ exports: await import("typescript-5"), loader: "object" }));
  },
});

const [, , document = ""] = process.argv;
const { astToString, default: typesOf } = await import("openapi-typescript");
await Bun.write(Bun.stdout, astToString(await typesOf(pathToFileURL(document))));
