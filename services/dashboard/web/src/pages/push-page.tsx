import { Stack, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import type { PushDetails, PushHead } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';
import { statusCommand } from '../lib/curl.ts';
import { useRememberApp } from '../lib/current-app.ts';
import { channelLabel, stateLabel } from '../lib/outcomes.ts';
import { describeSender } from '../lib/push-words.ts';
import { formatCount, formatDuration } from '../lib/times.ts';
import { usePathId } from '../lib/use-url.ts';
import { useLive } from '../live/use-live.ts';
import { ApiCommand } from '../parts/api-command.tsx';
import { Facts } from '../parts/facts.tsx';
import { Id } from '../parts/id.tsx';
import { LiveState } from '../parts/live-state.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { PushLink } from '../parts/object-links.tsx';
import { OutcomeBar, OutcomeLegend } from '../parts/outcomes.tsx';
import { Page } from '../parts/page.tsx';
import { Panel } from '../parts/panel.tsx';
import { Ago, Time } from '../parts/time.tsx';
import { useMay } from '../shell/session.ts';
import { PushActions } from './push/actions.tsx';
import { PayloadPanel } from './push/payload-panel.tsx';
import { ProviderErrors } from './push/provider-errors.tsx';
import { RecipientsPanel } from './push/recipients-panel.tsx';
import { Timeline } from './push/timeline.tsx';

/** Shows a push: did it arrive, and if not, why. */
export function PushPage() {
  const id = usePathId('push');
  const path = `/pushes/${id}` as const;
  const details = useGet(path);
  const client = useQueryClient();
  const status = useLive({ pushes: [id] }, (message) => {
    if (message.kind !== 'push' || !message.data.includes(id)) return;
    void client.invalidateQueries({ predicate: ({ queryKey }) => isOfPush(queryKey[0], path) });
  });
  useRememberApp(details.data?.push.app);
  return (
    <Page
      title={`Push ${id}`}
      heading={
        <>
          Push <Id id={id} />
        </>
      }
      actions={
        <>
          <LiveState status={status} />
          {details.data !== undefined && <PushActions push={details.data.push} />}
        </>
      }
    >
      <Loaded query={details} height={480}>
        {(found) => <Details details={found} />}
      </Loaded>
    </Page>
  );
}

/** The payload never changes, and each reading of it is in the audit log. */
function isOfPush(key: unknown, path: string): boolean {
  return typeof key === 'string' && key.startsWith(path) && !key.endsWith('/payload');
}

function Details({ details }: { details: PushDetails }) {
  const { push, counts, byChannel, timeline, providerErrors } = details;
  const maySeePayload = useMay('operator');
  const channels = Object.entries(byChannel);
  return (
    <Stack gap="md">
      <Panel title="Outcomes" note={describeRecipients(push)}>
        <Stack gap="md">
          <OutcomeBar counts={counts} height={18} />
          <OutcomeLegend counts={counts} />
        </Stack>
      </Panel>
      {channels.length > 1 && (
        <Panel title="By channel">
          <Stack gap="md">
            {channels.map(([channel, ofChannel]) => (
              <Stack key={channel} gap={6}>
                <Text fz="sm" fw={600}>
                  {channelLabel(channel)}
                </Text>
                <OutcomeBar counts={ofChannel} />
                <OutcomeLegend counts={ofChannel} />
              </Stack>
            ))}
          </Stack>
        </Panel>
      )}
      <Panel title="Time line">
        <Timeline events={timeline} />
      </Panel>
      <Panel title="About this push">
        <Facts facts={listFacts(details)} />
      </Panel>
      <ProviderErrors errors={providerErrors} />
      <RecipientsPanel push={push.id} />
      {maySeePayload && <PayloadPanel push={push.id} />}
      <Panel title="Read it with the API">
        <ApiCommand
          label="Command that reads the push"
          command={(api) => statusCommand(api, push.id)}
        />
      </Panel>
    </Stack>
  );
}

function describeRecipients({ devices, state }: PushHead): string {
  const many = devices === 1 ? '1 device' : `${formatCount(devices)} devices`;
  return `${stateLabel(state)} · ${many}`;
}

function listFacts({ push, timeline, batches, byChannel, redriveOf, redrivenAs }: PushDetails) {
  const startedAt = push.dueAt ?? push.acceptedAt;
  const finishedAt = timeline.find(({ what }) => what === 'finished')?.at;
  const channels = Object.keys(byChannel).map(channelLabel).join(', ');
  return [
    ['State', stateLabel(push.state)],
    ...(push.by === undefined ? [] : [['From', describeSender(push.by)] as const]),
    ['Accepted', <Time key="accepted" at={push.acceptedAt} />],
    ...(push.dueAt === undefined ? [] : [['Due', <Time key="due" at={push.dueAt} />] as const]),
    ['Expires', <Ago key="expires" at={push.expiresAt} />],
    ...(finishedAt === undefined
      ? []
      : [['Finished after', formatDuration(finishedAt - startedAt)] as const]),
    ['Channels', channels || '–'],
    [
      'Batches',
      `${formatCount(batches.total - batches.open)} of ${formatCount(batches.total)} done`,
    ],
    ...(push.topics === undefined ? [] : [['Topics', push.topics.join(', ')] as const]),
    ...(redriveOf === undefined
      ? []
      : [['Re-drive of', <PushLink key="old" id={redriveOf} />] as const]),
    ...(redrivenAs.length === 0
      ? []
      : [['Re-driven as', redrivenAs.map((id) => <PushLink key={id} id={id} />)] as const]),
  ] as const;
}
