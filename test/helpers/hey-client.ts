/** `bun hey-client.ts openapi.json FOLDER` generates a client with Hey API. */
import { plugin } from "bun";

// Hey API needs the compiler API of TypeScript 5, which the TypeScript of this project does not have.
plugin({
  name: "typescript-5",
  setup(build) {
    build.module("typescript", async () => ({ exports: await import("typescript-5"), loader: "object" }));
  },
});

const [, , input = "", path = ""] = process.argv;
const { createClient } = await import("@hey-api/openapi-ts");
const plugins = ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"] as const;
await createClient({ input, output: { path }, plugins: [...plugins], logs: { level: "silent" } });
