/** `bun client-types.ts openapi.json` prints the client types that openapi-typescript generates from a document. */
import { pathToFileURL } from "node:url";

// openapi-typescript needs the compiler API of TypeScript 5, which the TypeScript of this project does not have.
Bun.plugin({
  name: "typescript-5",
  setup(build) {
    build.module("typescript", async () => ({ exports: await import("typescript-5"), loader: "object" }));
  },
});

const [, , document = ""] = process.argv;
const { astToString, default: typesOf } = await import("openapi-typescript");
await Bun.write(Bun.stdout, astToString(await typesOf(pathToFileURL(document))));
