// The next instants of an expression while it is typed, by the clocks of its zone.
import { useDebouncedValue } from '@mantine/hooks'
import { keepPreviousData, skipToken, type UseQueryResult, useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { findLocale } from '../../ui/format'
import { formatInZone, listInstants } from './schedules'

const TYPING_MS = 300

export function useInstants(cron: string, timeZone: string): UseQueryResult<number[]> {
  const [settled] = useDebouncedValue(cron.trim(), TYPING_MS)
  return useQuery({
    queryKey: ['schedule-instants', settled, timeZone],
    queryFn: settled === '' ? skipToken : () => listInstants(settled, timeZone),
    placeholderData: keepPreviousData,
  })
}

export function NextInstants({ found, timeZone }: { found: UseQueryResult<number[]>; timeZone: string }) {
  const { t } = useTranslation('schedules')
  const isOld = found.isPlaceholderData || found.isError
  return (
    <div className="small" role="status" aria-live="polite">
      <span className="field-label">{t('nextInstants', { zone: timeZone })}</span>
      <ol className="hints num">
        {!isOld &&
          (found.data ?? []).map((instant) => <li key={instant}>{formatInZone(instant, timeZone, findLocale())}</li>)}
        {(isOld || found.data === undefined) && <li className="dim">--</li>}
      </ol>
    </div>
  )
}
