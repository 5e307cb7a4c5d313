import {
  ActionIcon,
  Badge,
  Burger,
  Button,
  Group,
  Kbd,
  Text,
  useComputedColorScheme,
  useMantineColorScheme,
} from '@mantine/core';
import { IconMoon, IconSearch, IconSun } from '@tabler/icons-react';
import { TextLink } from '../parts/links.tsx';
import { AppSwitcher } from './app-switcher.tsx';
import { openSearch } from './search-request.ts';
import { useSession } from './session.ts';

interface HeaderProps {
  isNavigationOpen: boolean;
  onToggleNavigation: () => void;
}

/** Shows the line above all pages: app, search, colours. */
export function Header({ isNavigationOpen, onToggleNavigation }: HeaderProps) {
  const { environment } = useSession();
  return (
    <Group h="100%" px="sm" justify="space-between" wrap="nowrap" gap="xs">
      <Group gap="sm" wrap="nowrap" miw={0}>
        <Burger
          hiddenFrom="sm"
          size="sm"
          opened={isNavigationOpen}
          onClick={onToggleNavigation}
          aria-label="Show the pages"
          aria-expanded={isNavigationOpen}
        />
        <TextLink to="/" fw={700} c="var(--mantine-color-text)" underline="never" visibleFrom="sm">
          Carillon
        </TextLink>
        {environment !== '' && (
          <Badge variant="outline" color="gray" radius="sm" tt="none" visibleFrom="sm">
            <Text span fz="xs" c="var(--mantine-color-text)">
              {environment}
            </Text>
          </Badge>
        )}
        <AppSwitcher />
      </Group>
      <Group gap={6} wrap="nowrap">
        <SearchButton />
        <SchemeButton />
      </Group>
    </Group>
  );
}

function SearchButton() {
  return (
    <>
      <Button
        visibleFrom="md"
        size="xs"
        variant="default"
        leftSection={<IconSearch size={14} aria-hidden />}
        rightSection={<Kbd size="xs">Ctrl K</Kbd>}
        onClick={openSearch}
      >
        Find
      </Button>
      <ActionIcon
        hiddenFrom="md"
        variant="subtle"
        color="gray"
        size="lg"
        aria-label="Find"
        onClick={openSearch}
      >
        <IconSearch size={18} aria-hidden />
      </ActionIcon>
    </>
  );
}

function SchemeButton() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme('light');
  const other = scheme === 'dark' ? 'light' : 'dark';
  const Icon = scheme === 'dark' ? IconSun : IconMoon;
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      size="lg"
      title={`Use the ${other} colours`}
      aria-label={`Use the ${other} colours`}
      onClick={() => setColorScheme(other)}
    >
      <Icon size={18} aria-hidden />
    </ActionIcon>
  );
}
