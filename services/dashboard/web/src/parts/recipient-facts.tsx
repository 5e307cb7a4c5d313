import type { Recipient } from '../api/types.ts';
import { describeReason } from '../lib/outcomes.ts';
import { formatCount, formatDuration } from '../lib/times.ts';
import { Facts } from './facts.tsx';
import { TextLink } from './links.tsx';
import { OutcomeMark } from './outcomes.tsx';
import { Time } from './time.tsx';

/** Shows what became of a push for one device. */
export function RecipientFacts({ recipient }: { recipient: Recipient }) {
  return <Facts facts={listFacts(recipient)} />;
}

function listFacts({ token, outcome, reason, detail, milliseconds, tries, nextTryAt }: Recipient) {
  return [
    [
      'Device',
      <TextLink key="device" to="/devices/$token" params={{ token }} className="mono">
        {token}
      </TextLink>,
    ],
    ['Outcome', <OutcomeMark key="outcome" outcome={outcome} />],
    ...(milliseconds === undefined
      ? []
      : [['Until the receipt', formatDuration(milliseconds)] as const]),
    ...(reason === undefined ? [] : [['Reason', describeReason(reason)] as const]),
    ...(detail === undefined ? [] : [['Words of the provider', detail] as const]),
    ...(tries === undefined ? [] : [['Deferred', `${formatCount(tries)} times`] as const]),
    ...(nextTryAt === undefined
      ? []
      : [['Next try not before', <Time key="next" at={nextTryAt} />] as const]),
  ] as const;
}
