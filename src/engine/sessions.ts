/** Several sessions on the same weights. */
import { type NativeSession, openSession, type SessionOptions } from "../native/binding.ts";

/** Opens `instances` sessions that share their weights; none stays open when one fails. */
export async function openSessions(options: SessionOptions, instances: number): Promise<NativeSession[]> {
  const first = await openSession({ ...options, instances });
  const sessions = [first];
  try {
    while (sessions.length < instances) sessions.push(await openSession({ ...options, share: first }));
    return sessions;
  } catch (error) {
    await Promise.all(sessions.map((session) => session.dispose()));
    throw error;
  }
}
