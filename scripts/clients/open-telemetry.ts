/** Receives a server's exports by OTLP, and decodes them with the protobuf definitions of OpenTelemetry's collector. */
import { join } from "node:path";
import { clientOf, startCli } from "../../test/helpers/cli.ts";
import { tempDir } from "../../test/helpers/fixture.ts";
import { storeWith } from "../../test/helpers/server.ts";
import { environment, sources } from "./environment.ts";

export async function openTelemetry(): Promise<void> {
  const python = await environment("open-telemetry");
  await using dir = await tempDir();
  await using store = await storeWith("parts");
  let exports = 0;
  const collector = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const signal = new URL(request.url).pathname.split("/").at(-1);
      const body = Bun.gunzipSync(await request.arrayBuffer());
      await Bun.write(dir.join(`${signal}-${exports++}.bin`), body);
      return new Response(new Uint8Array(), { headers: { "Content-Type": "application/x-protobuf" } });
    },
  });
  try {
    const server = startCli(["serve", "parts", "--host", "127.0.0.1", "-p", "0", "--fronts", "2"], {
      env: {
        SCONCE_HOME: store.home,
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url.origin,
        OTEL_EXPORTER_OTLP_COMPRESSION: "gzip",
      },
    });
    const client = await clientOf(server);
    await client.predict([{ x: 1 }, { x: 2 }]);
    // Stops the server, which then exports the remaining spans.
    server.kill("SIGTERM");
    await server.exited;
    const counts = await python.run(["python", join(sources, "open_telemetry.py"), dir.path]);
    console.log(`✓ OpenTelemetry: ${counts.trim()} spans decoded with its protobuf definitions`);
  } finally {
    await collector.stop(true);
  }
}
