import { Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { describeDevices, describeUnknown } from '../../lib/audience-words.ts';
import { findWrongRecipient, readRecipients } from '../../lib/compose-body.ts';
import { useMay } from '../../shell/session.ts';
import { countAudience } from './use-send.ts';

/** Time without a change after which the devices are counted. */
const PAUSE_MS = 400;

/** Shows how many devices a push to these recipients would have now, and names recipients that reach none. */
export function Audience({ app, to }: { app: string; to: string }) {
  const [counted] = useDebouncedValue(to, PAUSE_MS);
  const recipients = readRecipients(counted);
  const isComplete = recipients.length > 0 && findWrongRecipient(recipients) === undefined;
  const maySend = useMay('operator');
  const { data, error } = useQuery({
    queryKey: ['audience', app, counted],
    queryFn: () => countAudience(app, recipients),
    enabled: maySend && isComplete,
  });
  const text = error
    ? `The devices can’t be counted: ${error.message}`
    : data && `Goes to ${describeDevices(data)} now. ${describeUnknown(data)}`;
  return (
    <Text fz="sm" role="status" className="wrap-anywhere">
      {isComplete && text}
    </Text>
  );
}
