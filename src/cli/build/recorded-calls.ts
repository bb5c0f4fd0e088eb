/** Records the calls of programs that the model's own code makes, to compare them with PyTorch. */
import type { CallArgument, CallResult, ModelSession, Predict, Steps } from "../../author/session.ts";
import { isTensor, type Tensor } from "../../author/tensor.ts";
import type { NamedCall } from "./compared-reference.ts";

/** Maximum calls of a weights file to record. */
const MOST_CALLS = 8;

type Sessions = Readonly<Record<string, ModelSession>>;

/**
 * The model's own function, with sessions that record their calls.
 * @param calls gets, for each weights file, the first calls of `forward` with only tensors as arguments and results
 */
export function recording(predict: Predict | Steps, calls: Map<string, NamedCall[]>): Predict | Steps {
  const recorded = (sessions: Sessions) =>
    Object.fromEntries(
      Object.entries(sessions).map(([name, session]) => [name, recordedSession(session, name, calls)]),
    );
  if (typeof predict === "function") return (batch, sessions, caller) => predict(batch, recorded(sessions), caller);
  return {
    begin: (tensors, sessions, caller) => predict.begin(tensors, recorded(sessions), caller),
    step: (states, sessions, caller) => predict.step(states, recorded(sessions), caller),
  };
}

function recordedSession(session: ModelSession, name: string, calls: Map<string, NamedCall[]>): ModelSession {
  return {
    async call<R extends CallResult>(method: string, ...args: readonly CallArgument[]): Promise<R> {
      const own = calls.get(name) ?? [];
      if (method !== "forward" || own.length >= MOST_CALLS) return session.call<R>(method, ...args);
      calls.set(name, own);
      const inputs = copied(Object.fromEntries(args.flatMap(namedArguments)));
      const result = await session.call<R>(method, ...args);
      const outputs = copied(result);
      if (inputs === undefined || outputs === undefined) return result;
      // Calls may overlap.
      if (own.length < MOST_CALLS)
        own.push({ what: `call ${own.length + 1} of "${name}"`, inputs, outputs, rows: inputs[0]?.shape[0] ?? 1 });
      return result;
    },
  };
}

/** The values of an argument by place. The values of the first argument, if it is a list, are `#0.0`, `#0.1` and so on. */
function namedArguments(argument: CallArgument, place: number): [string, unknown][] {
  if (!Array.isArray(argument)) return [[`#${place}`, argument]];
  return argument.flat(Number.POSITIVE_INFINITY).map((each, i) => [`#${place}.${i}`, each]);
}

/**
 * Copies of the tensors of a value, by name or place, because later calls may change their elements.
 * @returns undefined if there is any other value
 */
function copied(value: unknown): Readonly<Record<string, Tensor>> | undefined {
  const isNamed = typeof value === "object" && value !== null && !Array.isArray(value) && !isTensor(value);
  const byName = Object.entries(isNamed ? value : [value].flat(Number.POSITIVE_INFINITY));
  const tensors = byName.flatMap(([name, each]): [string, Tensor][] =>
    isTensor(each) ? [[name, { dtype: each.dtype, shape: each.shape, data: each.data.slice() }]] : [],
  );
  return tensors.length === byName.length ? Object.fromEntries(tensors) : undefined;
}
