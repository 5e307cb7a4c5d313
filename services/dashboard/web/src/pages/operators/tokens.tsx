import { Button, Group, Stack, Text, Title } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { change } from '../../api/request.ts';
import type { Account, OperatorToken } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { useList } from '../../api/use-get.ts';
import { confirm } from '../../parts/confirm.tsx';
import { Empty } from '../../parts/empty.tsx';
import { type Column, List } from '../../parts/list.tsx';
import { SecretDialog } from '../../parts/secret-dialog.tsx';
import { Ago, Time } from '../../parts/time.tsx';
import { TOKENS_PATH } from './paths.ts';

const TokenForm = lazy(async () => ({ default: (await import('./token-form.tsx')).TokenForm }));

/** Tokens shown. */
const MAX_TOKENS = 100;

interface TokensProps {
  accounts: readonly Account[];
  nameAccount: (id: string) => string;
}

/** Lists the tokens with which programs use the admin API, creates and revokes them. */
export function Tokens({ accounts, nameAccount }: TokensProps) {
  const query = useList(TOKENS_PATH, { limit: MAX_TOKENS });
  const [isOpen, setOpen] = useState(false);
  const [token, setToken] = useState<string>();
  const revoke = useChange({
    run: (id: string) => change('DELETE', `${TOKENS_PATH}/${id}`),
    outdated: [[TOKENS_PATH]],
    done: 'The token no longer works.',
  });
  const ask = ({ id, name }: OperatorToken) =>
    confirm({
      title: `Revoke the token ${name}?`,
      text: 'Programs that use it are refused at once. This can’t be undone.',
      action: 'Revoke',
      onConfirm: () => revoke.mutate(id),
    });
  return (
    <Stack gap="xs" component="section" aria-label="Tokens">
      <Group justify="space-between">
        <Title order={2} fz={15}>
          Tokens
        </Title>
        <Button size="xs" variant="default" onClick={() => setOpen(true)}>
          Create a token
        </Button>
      </Group>
      <List
        query={query}
        columns={listColumns(nameAccount, ask)}
        idOf={({ id }) => id}
        label="Table of tokens"
        empty={
          <Empty title="No tokens">
            A program uses the admin API with a token, which ends with the access of its maker.
          </Empty>
        }
      />
      {query.data?.next !== undefined && (
        <Text fz="sm">The command line lists those after the first {MAX_TOKENS}.</Text>
      )}
      {isOpen && (
        <Suspense>
          <TokenForm accounts={accounts} onClose={() => setOpen(false)} onToken={setToken} />
        </Suspense>
      )}
      <SecretDialog
        title="New token"
        note="The server stores only its digest: this is the only time that it is shown."
        secret={token}
        onClose={() => setToken(undefined)}
      />
    </Stack>
  );
}

function listColumns(
  nameAccount: (id: string) => string,
  onRevoke: (token: OperatorToken) => void,
): Column<OperatorToken>[] {
  return [
    { accessor: 'name', title: 'Token' },
    { accessor: 'role', title: 'Role' },
    {
      accessor: 'accounts',
      title: 'Accounts',
      render: ({ accounts }) => (accounts === 'all' ? 'all' : accounts.map(nameAccount).join(', ')),
    },
    { accessor: 'by', title: 'Made by', render: ({ by }) => by ?? 'the command line' },
    {
      accessor: 'lastUsedAt',
      title: 'Last use',
      render: ({ lastUsedAt }) => <Ago at={lastUsedAt} />,
    },
    { accessor: 'expiresAt', title: 'Ends', render: ({ expiresAt }) => <Time at={expiresAt} /> },
    {
      accessor: 'id',
      title: 'Actions',
      textAlign: 'right',
      render: (token) => (
        <Button
          size="compact-xs"
          variant="default"
          aria-label={`Revoke: ${token.name}`}
          onClick={() => onRevoke(token)}
        >
          Revoke
        </Button>
      ),
    },
  ];
}
