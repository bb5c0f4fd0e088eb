/**
 * `bun build-child.ts HOME NAME COUNT` stores COUNT models. It prints a line for every copied megabyte and the
 * reference of every build, so that a test can kill it at any point.
 */
import { ModelStore } from "../../src/package/store/store.ts";
import { modelConfig, modelLayers } from "./model-content.ts";

const [home = "", name = "", count = "0"] = process.argv.slice(2);
const store = new ModelStore(home);
// All builds share this layer. The other layers differ, and the weights are so large that a kill can come during their
// write.
const shared = {
  mediaType: "application/vnd.sconce.asset.v1",
  title: "shared.txt",
  source: Buffer.from("shared"),
} as const;
for (let index = 0; index < Number(count); index++) {
  const weights = `${home}.${process.pid}.weights`;
  await Bun.write(weights, Buffer.alloc(3_000_000, `${name} ${index}`));
  const { reference } = await store.put({
    repository: name,
    tags: [`build-${index}`],
    config: modelConfig({ name }),
    layers: [...modelLayers(`${name} ${index}`, weights), shared],
    onProgress: ({ doneBytes }) => process.stdout.write(`${doneBytes}\n`),
  });
  process.stdout.write(`${reference}\n`);
}
