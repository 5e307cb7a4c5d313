import type { Arrival, GoneDevice, History, PushEnd, Refusal, SentPush } from './history.ts';
import { LONG_TTL_SECONDS } from './plan.ts';

/** The history, prepared for the checks. Its pushes include the probes. */
export interface Prepared extends History {
  byMark: ReadonlyMap<string, SentPush>;
  /** By mark, then by token, in order of time. */
  arrivalsOf: ReadonlyMap<string, ReadonlyMap<string, readonly Arrival[]>>;
  /** By token. */
  goneOf: ReadonlyMap<string, GoneDevice>;
  refusalsOf: ReadonlyMap<string, readonly Refusal[]>;
}

/** Prepares a history. */
export function prepare(history: History): Prepared {
  const pushes = [...history.pushes, ...history.probes];
  const byMark = new Map(pushes.map((push) => [push.mark, push]));
  const arrivalsOf = new Map<string, Map<string, Arrival[]>>();
  for (const arrival of history.arrivals.toSorted((a, b) => a.atMs - b.atMs)) {
    const byToken = arrivalsOf.get(arrival.mark) ?? new Map<string, Arrival[]>();
    arrivalsOf.set(arrival.mark, byToken);
    const list = byToken.get(arrival.token) ?? [];
    byToken.set(arrival.token, list);
    list.push(arrival);
  }
  const goneOf = new Map(history.gone.map((device) => [device.token, device]));
  const refusalsOf = Map.groupBy(history.refusals, ({ token }) => token);
  return { ...history, pushes, byMark, arrivalsOf, goneOf, refusalsOf };
}

/** Returns the id of an accepted push: from a response, or if none came, from the database. */
export function acceptedId({
  tries,
  stored,
}: Pick<SentPush, 'tries' | 'stored'>): string | undefined {
  return tries.find(({ end }) => end === 'ok')?.id ?? stored?.[0]?.id;
}

/** Checks that nothing may keep a push from its devices: it does not expire, is not deleted and not replaced. */
export function isPlain({ ttlSeconds, deletion, collapse }: SentPush): boolean {
  return ttlSeconds >= LONG_TTL_SECONDS && deletion === undefined && collapse === undefined;
}

/** An accepted push, and how it has ended. */
interface AcceptedPush {
  push: SentPush;
  id: string;
  end: PushEnd | undefined;
}

/** Lists the accepted pushes. */
export function listAccepted(history: Prepared): AcceptedPush[] {
  return history.pushes.flatMap((push) => {
    const id = acceptedId(push);
    return id === undefined ? [] : [{ push, id, end: history.ends[id] }];
  });
}

/** Returns the arrivals of a push at a device, in order of time. */
export function arrivalsAt(
  { arrivalsOf }: Pick<Prepared, 'arrivalsOf'>,
  { mark }: Pick<SentPush, 'mark'>,
  token: string,
): readonly Arrival[] {
  return arrivalsOf.get(mark)?.get(token) ?? [];
}
