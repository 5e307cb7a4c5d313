import { Button, Group, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { change } from '../../api/request.ts';
import type { ApiKey } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { useList } from '../../api/use-get.ts';
import { confirm } from '../../parts/confirm.tsx';
import { Empty } from '../../parts/empty.tsx';
import { type Column, List } from '../../parts/list.tsx';
import { SecretDialog } from '../../parts/secret-dialog.tsx';
import { Time } from '../../parts/time.tsx';
import { useMay } from '../../shell/session.ts';

/** Lists an app's API keys, creates and revokes them. */
export function KeysTab({ app }: { app: string }) {
  const path = `/apps/${app}/keys` as const;
  const query = useList(path);
  const mayChange = useMay('admin');
  const [secret, setSecret] = useState<string>();
  const create = useChange({
    run: () => change('POST', path),
    outdated: [[path]],
    onDone: ({ key }) => setSecret(key),
  });
  const revoke = useChange({
    run: (id: string) => change('DELETE', `${path}/${id}`),
    outdated: [[path]],
    done: 'The key is revoked. It works for up to 10 more seconds.',
  });
  const ask = ({ id, lastFour }: ApiKey) =>
    confirm({
      title: `Revoke the key that ends in ${lastFour}?`,
      text: 'Backends that use it can’t send any more. This can’t be undone.',
      action: 'Revoke',
      onConfirm: () => revoke.mutate(id),
    });
  return (
    <Stack gap="md">
      <Group justify="space-between">
        <Text fz="sm" c="dimmed" maw={640}>
          A backend sends pushes with one of these keys. To change a key without a gap, create a new
          one, switch the backend over, and then revoke the old one.
        </Text>
        {mayChange && (
          <Button size="xs" loading={create.isPending} onClick={() => create.mutate()}>
            Create a key
          </Button>
        )}
      </Group>
      <List
        query={query}
        columns={listColumns(mayChange ? ask : undefined)}
        idOf={({ id }) => id}
        empty={<Empty title="No keys">Create a key, with which a backend sends pushes.</Empty>}
      />
      <SecretDialog
        title="New API key"
        note="The server stores only its digest: this is the only time that it is shown."
        secret={secret}
        onClose={() => setSecret(undefined)}
      />
    </Stack>
  );
}

function listColumns(onRevoke: ((key: ApiKey) => void) | undefined): Column<ApiKey>[] {
  const columns: Column<ApiKey>[] = [
    {
      accessor: 'lastFour',
      title: 'Key',
      render: ({ lastFour }) => <span className="mono">{`…${lastFour}`}</span>,
    },
    { accessor: 'createdAt', title: 'Created', render: ({ createdAt }) => <Time at={createdAt} /> },
    {
      accessor: 'lastUsedAt',
      title: 'Last used',
      render: ({ lastUsedAt }) => <Time at={lastUsedAt} />,
    },
    { accessor: 'revokedAt', title: 'Revoked', render: ({ revokedAt }) => <Time at={revokedAt} /> },
  ];
  if (onRevoke === undefined) return columns;
  const action: Column<ApiKey> = {
    accessor: 'id',
    title: 'Actions',
    textAlign: 'right',
    render: (key) =>
      key.revokedAt === undefined && (
        <Button
          size="compact-xs"
          variant="default"
          aria-label={`Revoke the key that ends in ${key.lastFour}`}
          onClick={() => onRevoke(key)}
        >
          Revoke
        </Button>
      ),
  };
  return [...columns, action];
}
