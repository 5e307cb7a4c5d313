import { FLAGS } from './check-gone.ts';
import type { PushEnd, Reports, SentPush } from './history.ts';
import { acceptedId, listAccepted, type Prepared } from './prepare.ts';

/** Lists the events of a push that are not among those reported so far. */
export function listUnreported(
  { outcomes, finished }: Pick<Reports, 'outcomes' | 'finished'>,
  push: SentPush,
  end: PushEnd | undefined,
): string[] {
  const id = acceptedId(push) ?? '';
  const recipients = push.audience.filter(
    (token) => !outcomes[id]?.[token]?.includes(end?.recipients[token] ?? ''),
  );
  const isEndMissing = end?.stored.finishedAtMs !== undefined && !finished.includes(id);
  return [
    ...recipients.map((token) => `${push.mark} (${id}) at ${token}`),
    ...(isEndMissing ? [`the end of ${push.mark} (${id})`] : []),
  ];
}

/** Finds events that were not reported to the tenant's webhook, and those that are not the tenant's. */
export function checkReports(history: Prepared): string[] {
  const { tenant, sinceMs, outcomes, finished, wrongRequests } = history.reports;
  const own = listAccepted(history).filter(({ push }) => push.tenant === tenant);
  const ids = new Set(own.map(({ id }) => id));
  const foreign = [...new Set([...Object.keys(outcomes), ...finished])].filter(
    (id) => !ids.has(id),
  );
  return [
    ...own.flatMap(({ push, end }) =>
      (push.tries[0]?.startedAtMs ?? 0) < sinceMs ? [] : listUnreported(history.reports, push, end),
    ),
    ...foreign.map((id) => `${id}, which is no push of ${tenant}`),
    ...listWrongFlags(history),
    ...(wrongRequests === 0 ? [] : [`${wrongRequests} wrong requests`]),
  ];
}

/** Finds flags of devices that were not reported, and reported ones that the device does not have. */
function listWrongFlags({ gone, flags, reports }: Prepared): string[] {
  const { tenant, sinceMs } = reports;
  const expected = gone.filter((one) => one.tenant === tenant && one.startedAtMs >= sinceMs);
  const missing = expected.filter(
    ({ token, channel }) => !reports.flags[token]?.includes(FLAGS[channel]),
  );
  const others = Object.entries(reports.flags).flatMap(([token, reported]) =>
    reported.filter((flag) => flag !== flags[token]).map((flag) => `${token}: ${flag}`),
  );
  return [...missing.map(({ token, channel }) => `${token}, gone at ${channel}`), ...others];
}
