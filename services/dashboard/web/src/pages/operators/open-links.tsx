import { Button, Stack, Title } from '@mantine/core';
import { change } from '../../api/request.ts';
import type { OpenLink } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { useList } from '../../api/use-get.ts';
import { confirm } from '../../parts/confirm.tsx';
import { Empty } from '../../parts/empty.tsx';
import { type Column, List } from '../../parts/list.tsx';
import { Time } from '../../parts/time.tsx';
import { LINKS_PATH } from './paths.ts';

/** Links shown: each works for an hour at most. */
const MAX_LINKS = 100;

/** Lists the invites and password links that nobody has used yet, and revokes them. */
export function OpenLinks({ nameAccount }: { nameAccount: (id: string) => string }) {
  const query = useList(LINKS_PATH, { limit: MAX_LINKS });
  const revoke = useChange({
    run: (id: string) => change('DELETE', `${LINKS_PATH}/${id}`),
    outdated: [[LINKS_PATH]],
    done: 'The link no longer works.',
  });
  const ask = (link: OpenLink) =>
    confirm({
      title: 'Revoke the link?',
      text: `${describePurpose(link)}: nobody can use the link any more.`,
      action: 'Revoke',
      onConfirm: () => revoke.mutate(link.id),
    });
  return (
    <Stack gap="xs" component="section" aria-label="Open links">
      <Title order={2} fz={15}>
        Open links
      </Title>
      <List
        query={query}
        columns={listColumns(nameAccount, ask)}
        idOf={({ id }) => id}
        label="Table of links"
        empty={
          <Empty title="No open links">
            Invites and links for a new password are here until they are used.
          </Empty>
        }
      />
    </Stack>
  );
}

function describePurpose({ kind, role, operator = 'an operator' }: OpenLink): string {
  return kind === 'reset' ? `A new password of ${operator}` : `An invite as ${role}`;
}

function listColumns(
  nameAccount: (id: string) => string,
  onRevoke: (link: OpenLink) => void,
): Column<OpenLink>[] {
  return [
    { accessor: 'kind', title: 'Link', render: describePurpose },
    {
      accessor: 'accounts',
      title: 'Accounts',
      render: ({ accounts }) => (accounts === 'all' ? 'all' : accounts.map(nameAccount).join(', ')),
    },
    { accessor: 'by', title: 'Made by', render: ({ by }) => by ?? 'the command line' },
    { accessor: 'expiresAt', title: 'Ends', render: ({ expiresAt }) => <Time at={expiresAt} /> },
    {
      accessor: 'id',
      title: 'Actions',
      textAlign: 'right',
      render: (link) => (
        <Button
          size="compact-xs"
          variant="default"
          aria-label={`Revoke: ${describePurpose(link)}`}
          onClick={() => onRevoke(link)}
        >
          Revoke
        </Button>
      ),
    },
  ];
}
