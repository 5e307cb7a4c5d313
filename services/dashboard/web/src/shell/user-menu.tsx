import { Button, Menu } from '@mantine/core';
import { IconUser } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { change } from '../api/request.ts';
import { useChange } from '../api/use-change.ts';
import { endSession, useSession } from './session.ts';

/** Shows who is logged in, and the way out. */
export function UserMenu() {
  const { operator } = useSession();
  const navigate = useNavigate();
  const logout = useChange({ run: () => change('POST', '/logout'), onDone: endSession });
  return (
    <Menu position="bottom-end" withinPortal={false}>
      <Menu.Target>
        <Button
          size="xs"
          variant="subtle"
          color="gray"
          c="var(--mantine-color-text)"
          maw={160}
          leftSection={<IconUser size={16} aria-hidden />}
        >
          {operator.name}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label c="dimmed">{`Logged in as ${operator.role}`}</Menu.Label>
        <Menu.Item onClick={() => navigate({ to: '/password' })}>Change the password</Menu.Item>
        <Menu.Item onClick={() => logout.mutate()}>Log out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
