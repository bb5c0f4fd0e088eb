/** `sconce image [repo[:tag]] -o DIR`: writes a container image of a model and its server. */
import { z } from "zod";
import { formatBytes } from "../../base/bytes.ts";
import { log } from "../../base/log.ts";
import { folderPath, openOption } from "../../base/option.ts";
import { type Architecture, thisArchitecture } from "../../base/platform-package.ts";
import { type WrittenImage, writeImage } from "../../package/image/image.ts";
import { openImages } from "../../package/image/layout.ts";
import { makeProgram } from "../../package/image/program.ts";
import { modelStore } from "../../package/model-source.ts";
import { hostOf } from "../../package/store/reference.ts";
import { ModelStore } from "../../package/store/store.ts";
import { command, usage } from "../command-line/command.ts";
import { formatTable } from "../command-line/table.ts";
import { storedModel } from "./named-model.ts";

/** Pattern of each part between slashes in an image's name (OCI image spec, "Pre-Defined Annotation Keys"). */
const component = "[A-Za-z0-9]+(?:(?:[-._:@+]|--)[A-Za-z0-9]+)*";
const refName = new RegExp(`^${component}(?:/${component})*$`);
const allowed = "letters and digits with single '-', '.', '_', ':', '@', '+' or '/' between them";

export const image = command({
  details: `The command needs no container engine, and prints the image's name for skopeo and podman. The image has three layers: the C and C++ runtime; libtorch and the server; the model. An image of several platforms is an index with an image for each. Another platform than this machine's needs its npm packages and Debian's cross runtime: messages name what is missing. Images in one DIR share equal layers, so a new version of a model adds only the layer of the model. The container listens on port 3000 as an unprivileged user, has no shell, and accepts the options of serve.

Images are reproducible: the bytes depend only on the model, this version of sconce and this machine's libraries. All times are 1970.`,
  example: `sconce image digits:v1 -o images
skopeo copy oci:images:digits:v1 docker://registry.example.com/digits:v1`,
  options: {
    output: openOption<string>({
      description: "Required: folder of the layout, which is new, empty, or has images already",
      alias: "o",
      variable: "SCONCE_IMAGE_OUTPUT",
      ...folderPath,
    }),
    platform: openOption<readonly Architecture[]>({
      description: "Platforms of the image: linux/amd64, linux/arm64, or both with a comma between them",
      valueHint: "list",
      variable: "SCONCE_IMAGE_PLATFORM",
      described: "this machine's",
      parse: z
        .string()
        .transform((text) => [...new Set(text.split(","))])
        .pipe(z.array(z.enum(["linux/amd64", "linux/arm64"], "must be linux/amd64, linux/arm64, or both")))
        .transform((names) => names.map((name) => (name === "linux/amd64" ? "x64" : "arm64"))),
    }),
    tag: openOption<string>({
      description: "The image's name in the layout",
      valueHint: "name",
      alias: "t",
      variable: "SCONCE_IMAGE_TAG",
      described: "repo:tag",
      parse: z.string().regex(refName, `must be ${allowed}`),
    }),
  },
  positionals: modelStore.reference === undefined ? [] : [modelStore.reference],
  async run({ options, positionals: [reference] }) {
    const folder = options.output;
    if (folder === undefined) throw usage("missing --output DIR, the folder of the image layout");
    const platforms = options.platform ?? [thisArchitecture()];
    const model = await storedModel(modelStore, reference);
    const store = new ModelStore(model.home);
    const name = options.tag ?? model.reference;
    if (!refName.test(name)) {
      throw usage(`${name} can't be an image's name, which is ${allowed}; give one with --tag`);
    }
    const layout = openImages(folder);
    using workspace = layout.openWorkspace();
    await modelStore.verify(model);
    await modelStore.prepareLibraries();
    log.info(`Compressing the layers that ${folder} lacks`);
    const programs = [];
    for (const arch of platforms) programs.push(await makeProgram(workspace.path, arch));
    const written = await writeImage(layout, { model, home: store.home, programs, name });
    tell(written, { at: `${folder}:${name}`, name, all: programs.length > 1 ? " --all" : "" });
  },
});

/** Prints layers and next steps to standard error. Standard output has only the image's name, for other tools. */
function tell(written: WrittenImage, { at, name, all }: { at: string; name: string; all: string }): void {
  const rows = written.layers.map(({ title, digest, size, isShared }) => [
    title,
    digest.slice("sha256:".length, "sha256:".length + 12),
    formatBytes(size),
    isShared ? "was there" : "new",
  ]);
  log.log(`${formatTable(["LAYER", "DIGEST", "SIZE", ""], rows)}

Wrote ${written.digest}. To a registry, to Docker, to Podman:

  skopeo copy${all} oci:${at} docker://${hostOf(name) === undefined ? "registry.example.com/" : ""}${name}
  skopeo copy oci:${at} docker-daemon:${name}
  podman pull oci:${at}
`);
  console.log(`oci:${at}`);
}
