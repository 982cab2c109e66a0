#!/bin/bash
# A SLURM for tests: jobs are processes of this computer, and what is known of them is in files of $FAKE_SLURM.
# Its commands are links to this file. A cluster with a file named "full" starts nothing.
here=$FAKE_SLURM
case "$(basename "$0")" in
sbatch) # SCRIPT
    number=77
    while [ -e "$here/$number.sh" ]; do number=$((number + 1)); done
    cp "$1" "$here/$number.sh"
    last=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\).*/\1/p' "$1")
    echo "Submitted batch job $number"
    [ -e "$here/full" ] && exit
    if [ -z "$last" ]; then
        setsid "$(dirname "$0")/run-job" "$number" "$here/$number.sh" >/dev/null 2>&1 &
        exit
    fi
    for task in $(seq 0 "$last"); do
        export SLURM_ARRAY_JOB_ID=$number SLURM_ARRAY_TASK_ID=$task
        setsid "$(dirname "$0")/run-job" "${number}_$task" "$here/$number.sh" >/dev/null 2>&1 &
    done
    ;;
run-job) # JOB SCRIPT
    export SLURM_JOB_ID=$1
    echo $$ >"$here/$1.pid"
    while true; do
        echo RUNNING >"$here/$1.state"
        bash "$2"
        [ -e "$here/$1.requeue" ] || break
        mv "$here/$1.requeue" "$here/$1.requeued"
    done
    echo COMPLETED >"$here/$1.state"
    ;;
srun) # OPTIONS COMMAND
    while [ "${1#--}" != "$1" ]; do
        [ "$1" = --unbuffered ] || shift
        shift
    done
    job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
    echo $$ >"$here/${job:-$SLURM_JOB_ID}.step"
    exec "$@"
    ;;
sacct)
    echo "JobID|State|NodeList"
    for file in "$here"/*.state; do
        [ -e "$file" ] && echo "$(basename "$file" .state)|$(cat "$file")|here"
    done
    ;;
scontrol) # requeue JOB
    touch "$here/$2.requeue"
    ;;
scancel) # JOB [--signal NAME]
    if [ -z "$2" ]; then
        touch "$here/$1.cancelled"
    else
        kill -s "$3" "$(cat "$here/$1.step")"
    fi
    ;;
esac
