/** The output of a child process. */

/** Resolves with the first match in the output. Reading continues afterwards: a full pipe would block the process. */
export async function matchIn(output: ReadableStream<Uint8Array>, pattern: RegExp): Promise<RegExpExecArray> {
  const { promise, resolve, reject } = Promise.withResolvers<RegExpExecArray>();
  void (async () => {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of output) {
      text = (text + decoder.decode(chunk, { stream: true })).slice(-4000);
      const match = pattern.exec(text);
      if (match !== null) resolve(match);
    }
    reject(new Error(`the process ended: ${text}`));
  })();
  return await promise;
}
