import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { change, pathWith } from '../../api/request.ts';
import type { Credential } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { useGet } from '../../api/use-get.ts';
import { channelLabel } from '../../lib/outcomes.ts';
import { confirm } from '../../parts/confirm.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Facts } from '../../parts/facts.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time.tsx';
import { useMay } from '../../shell/session.ts';
import { TestPush } from './test-push.tsx';

const CredentialForm = lazy(async () => ({
  default: (await import('./credential-form.tsx')).CredentialForm,
}));

/** Lists an app's credentials at providers, sets and removes them. Their secrets are never shown. */
export function CredentialsTab({ app }: { app: string }) {
  const path = `/apps/${app}/credentials` as const;
  const query = useGet(path);
  const mayChange = useMay('admin');
  const maySend = useMay('operator');
  const [isAdding, setAdding] = useState(false);
  return (
    <Stack gap="md">
      <Group justify="space-between">
        <Text fz="sm" c="dimmed" maw={640}>
          With these the service sends through APNs, FCM and Web Push. MQTT needs none.
        </Text>
        {mayChange && (
          <Button size="xs" onClick={() => setAdding(true)}>
            Set a credential
          </Button>
        )}
      </Group>
      <Loaded query={query} height={160}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No credentials yet">
              Deliveries to iOS, Android and browsers fail until the app has a credential of their
              provider.
            </Empty>
          ) : (
            items.map((credential) => (
              <CredentialPanel key={credential.id} {...{ credential, mayChange, maySend }} />
            ))
          )
        }
      </Loaded>
      {isAdding && (
        <Suspense>
          <CredentialForm app={app} onClose={() => setAdding(false)} />
        </Suspense>
      )}
    </Stack>
  );
}

function CredentialPanel({
  credential,
  mayChange,
  maySend,
}: {
  credential: Credential;
  mayChange: boolean;
  maySend: boolean;
}) {
  const { app, channel, environment, changedAt, refused, warning } = credential;
  const problems = (useGet('/overview').data?.problems ?? []).filter(
    (problem) =>
      problem.kind === 'open-circuit' && problem.app?.id === app && problem.channel === channel,
  );
  const [isTesting, setTesting] = useState(false);
  const path = `/apps/${app}/credentials` as const;
  const remove = useChange({
    run: () => change('DELETE', pathWith(`${path}/${channel}`, { environment })),
    outdated: [[path]],
    done: 'The credential is removed.',
  });
  const name =
    environment === undefined ? channelLabel(channel) : `${channelLabel(channel)} (${environment})`;
  const ask = () =>
    confirm({
      title: `Remove the credential of ${name}?`,
      text: 'Deliveries that need it fail from now on.',
      action: 'Remove',
      onConfirm: () => remove.mutate(),
    });
  return (
    <Panel
      title={name}
      actions={
        <Group gap="xs">
          {maySend && (
            <Button size="compact-xs" variant="default" onClick={() => setTesting(true)}>
              Send a test push
            </Button>
          )}
          {mayChange && (
            <Button size="compact-xs" variant="default" onClick={ask} loading={remove.isPending}>
              Remove
            </Button>
          )}
        </Group>
      }
    >
      <Stack gap="sm">
        {refused !== undefined && (
          <Alert color="red" variant="outline" p="xs" title="The provider refuses this credential">
            <Text fz="sm" className="wrap-anywhere">
              {refused.detail}, since <Time at={refused.since} />. Deliveries wait until you set a
              credential that the provider accepts.
            </Text>
          </Alert>
        )}
        {problems.map(({ text, since, advice }) => (
          <Alert
            key={text}
            color="red"
            variant="outline"
            p="xs"
            title="The provider is unavailable"
          >
            <Text fz="sm" className="wrap-anywhere">
              {text} Since <Time at={since} />. {advice}
            </Text>
          </Alert>
        ))}
        {warning !== undefined && (
          <Alert color="accent" variant="outline" p="xs" title="Some pushes are not sent">
            <Text fz="sm" className="wrap-anywhere">
              {warning}
            </Text>
          </Alert>
        )}
        {isTesting && <TestPush app={app} channel={channel} onClose={() => setTesting(false)} />}
        <Facts facts={[['Set', <Time key="set" at={changedAt} />], ...listAbout(credential)]} />
      </Stack>
    </Panel>
  );
}

const SHOWN_APART = new Set([
  'id',
  'app',
  'channel',
  'environment',
  'changedAt',
  'refused',
  'warning',
]);

/** Lists the fields of a credential that the server shows, such as the key's id. */
function listAbout(credential: Credential): (readonly [string, string])[] {
  return Object.entries(credential)
    .filter(([name, value]) => !SHOWN_APART.has(name) && typeof value === 'string')
    .map(([name, value]) => [name, String(value)]);
}
