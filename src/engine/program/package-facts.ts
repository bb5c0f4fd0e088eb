/** Facts that an AOTInductor package states in its C++ source code. */

export interface PackageFacts {
  readonly minRows: number;
  readonly mostRows: number;
  /** Whether a run may modify state that the next run reads; true for a package without source code. */
  readonly keepsState: boolean;
}

export function packageFacts(source: string): PackageFacts {
  // The generated code checks each input; dimension 0 is the batch.
  const only = smallest(source.matchAll(/unmatched dim value at 0, [^;]*?expected: *(\d+)/g));
  const least = smallest(source.matchAll(/dim value is too small at 0, [^;]*?>= *(\d+)/g));
  const most = smallest(source.matchAll(/dim value is too large at 0, [^;]*?<= *(\d+)/g));
  return { minRows: only ?? least ?? 1, mostRows: only ?? most ?? Infinity, keepsState: writesBuffers(source) };
}

function smallest(matches: Iterable<RegExpExecArray>): number | undefined {
  const bounds = Array.from(matches, ([, bound]) => Number(bound));
  return bounds.length === 0 ? undefined : Math.min(...bounds);
}

/** Whether the code of a run uses a buffer in another way than `(const float*)(name.data_ptr())`, which only reads. */
function writesBuffers(source: string): boolean {
  const run = source.indexOf("::run_impl(");
  if (run < 0) return true;
  const code = source.slice(run).replaceAll(/\(const [^()]*\*\)\(\w+\.data_ptr\(\)\)|\b\w+ = constants_/g, " ");
  const words = new Set(code.match(/\w+/g));
  const constants = source.matchAll(/constants_info_\[\d+\]\.name = "([^"]*)".*?ConstantType::(\w+)/gs);
  return constants.some(([, name = "", type]) => type === "Buffer" && words.has(name));
}
