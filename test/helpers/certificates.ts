/** TLS certificates for test servers, made with openssl. */
import type { TempDir } from "./fixture.ts";

/**
 * Makes a certificate authority for tests, and a certificate for files.test and 127.0.0.1 that it signs. Each test run
 * makes new ones, so they never expire.
 */
export async function makeCertificates(dir: TempDir): Promise<{ ca: string; key: string; cert: string }> {
  const openssl = async (...args: string[]) => {
    const child = Bun.spawn(["openssl", ...args], { cwd: dir.path, stdout: "ignore", stderr: "pipe" });
    const stderr = await new Response(child.stderr).text();
    if ((await child.exited) !== 0) throw new Error(`openssl ${args[0]} failed: ${stderr}`);
  };
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  await openssl("req", "-x509", ...newKey, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test ca");
  await openssl("req", ...newKey, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=files.test");
  await Bun.write(dir.join("names"), "subjectAltName=DNS:files.test,IP:127.0.0.1");
  await openssl(
    ...["x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"],
    ...["-out", "server.pem", "-days", "2", "-extfile", "names"],
  );
  const read = (name: string) => Bun.file(dir.join(name)).text();
  return { ca: await read("ca.pem"), key: await read("server.key"), cert: await read("server.pem") };
}
