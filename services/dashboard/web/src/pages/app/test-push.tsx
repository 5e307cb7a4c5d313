import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { handleError } from '../../api/query-client.ts';
import { change, get } from '../../api/request.ts';
import type { Credential, SentTestPush } from '../../api/types.ts';
import { channelLabel } from '../../lib/outcomes.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { Failure } from '../../parts/failure.tsx';
import { ButtonLink } from '../../parts/links.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { RecipientFacts } from '../../parts/recipient-facts.tsx';

const READ_EVERY_MS = 1_000;

interface TestPushProps {
  app: string;
  channel: Credential['channel'];
  onClose: () => void;
}

/** Sends a push to one device over a channel, and follows it to its outcome. */
export function TestPush({ app, channel, onClose }: TestPushProps) {
  const [device, setDevice] = useState('');
  const send = useMutation({
    mutationFn: () => change('POST', `/apps/${app}/credentials/${channel}/test`, { device }),
    onError: handleError,
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    send.mutate();
  };
  return (
    <Dialog opened onClose={onClose} title={`Test push over ${channelLabel(channel)}`} size="lg">
      <Stack gap="md">
        <Text fz="sm">
          The device shows a notification. The push has the credentials, the limits and the way of
          all others.
        </Text>
        <form onSubmit={submit} noValidate>
          <Stack gap="sm">
            <TextInput
              label="Device"
              description="Its device token, or its token at the provider"
              spellCheck={false}
              autoComplete="off"
              value={device}
              onChange={({ currentTarget }) => setDevice(currentTarget.value)}
            />
            {send.isError && <Failure error={send.error} />}
            <Group>
              <Button type="submit" loading={send.isPending}>
                Send
              </Button>
            </Group>
          </Stack>
        </form>
        {send.data !== undefined && <Outcome key={send.data.id} sent={send.data} />}
      </Stack>
    </Dialog>
  );
}

function Outcome({ sent: { id, token } }: { sent: SentTestPush }) {
  const path = `/pushes/${id}/recipients/${encodeURIComponent(token)}` as const;
  const recipient = useQuery({
    queryKey: [path, {}],
    queryFn: ({ signal }) => get(path, {}, signal),
    refetchInterval: ({ state }) =>
      state.data === undefined || state.data.outcome === 'pending' ? READ_EVERY_MS : false,
  });
  return (
    <Stack gap="sm" role="status">
      <Loaded query={recipient} height={48}>
        {(found) => <RecipientFacts recipient={found} />}
      </Loaded>
      <Group>
        <ButtonLink size="xs" variant="default" to="/pushes/$push" params={{ push: id }}>
          Open the push
        </ButtonLink>
      </Group>
    </Stack>
  );
}
