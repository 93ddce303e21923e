# make image: which program builds, its arguments, what it refuses; files of both images that must agree.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_image=$LEVIN_SOURCE/tools/make_image
version=$("$LEVIN" --version | awk '{ print $2 }')
mkdir here none
for program in bash sed git dirname mktemp rm cat; do ln -s "$(command -v $program)" none/ 2>/dev/null || true; done
# A fake builder that prints its arguments.
for builder in buildah podman docker; do
    printf '#!/bin/sh\necho "$0 at ${SOURCE_DATE_EPOCH:-}:" "$@"\n' >here/$builder
    chmod +x here/$builder
done
unset IMAGE BASE BUILD_BASE NCCL BUILDER CUDA SOURCE_DATE_EPOCH

code 1 env PATH="$PWD/none" "$make_image"
one_error
says "is built by buildah, podman or docker, and none is here" err
code 1 env PATH="$PWD/none" BUILDER=kaniko "$make_image"
one_error
says "BUILDER is kaniko, and there is no such program" err
cp here/docker here/kaniko
code 1 env PATH="$PWD/here:$PATH" BUILDER=kaniko "$make_image"
one_error
says "it must be buildah, podman or docker" err

PATH=$PWD/here:$PATH
code 0 env SOURCE_DATE_EPOCH=1700000000 "$make_image"
says "/buildah at 1700000000: build --timestamp 1700000000 --file deploy/Dockerfile --tag levin:$version ." out
says "image: levin:$version" out
rm here/buildah
code 0 env PATH="$PWD/here:$PWD/none" SOURCE_DATE_EPOCH=5 CUDA=1 BASE=base:1 BUILD_BASE=base:2 NCCL=libnccl2 "$make_image" --no-cache
says "/podman at 5: build --timestamp 5 --file deploy/Dockerfile.cuda --tag levin:$version-cuda --build-arg BASE=base:1 --build-arg BUILD_BASE=base:2 --build-arg NCCL=libnccl2 --no-cache ." out
code 0 env BUILDER=docker IMAGE=registry/levin:1 SOURCE_DATE_EPOCH=7 "$make_image"
says "buildx build --provenance=false --build-arg SOURCE_DATE_EPOCH=7 --file deploy/Dockerfile --tag registry/levin:1 --output type=docker,dest=" out
says "rewrite-timestamp=true ." out
says "docker at 7: load --input" out
printf '#!/bin/sh\n[ "$2" != inspect ] || echo "Driver:   docker"\necho "$@"\n' >here/docker
code 0 env BUILDER=docker "$make_image"
says "so another build has another digest, until docker has containerd's image store" err
says "--tag levin:$version --load ." out
printf '#!/bin/sh\nexit 1\n' >here/docker
code 1 env BUILDER=docker "$make_image"
one_error
says "docker has no buildx here" err

# The name of the image in pages is that of this version; both files compile in the same way, and the chart's user is theirs.
for file in Dockerfile Dockerfile.cuda; do
    says "-t levin:$version" "$LEVIN_SOURCE/deploy/$file"
    sed -n '/^FROM \$BUILD_BASE AS build/,/^FROM \$BASE/p' "$LEVIN_SOURCE/deploy/$file" >"$file.build"
    check [ "$(wc -l <"$file.build")" -gt 4 ]
    sed -n '/^COPY --from=build/,$p' "$LEVIN_SOURCE/deploy/$file" >"$file.end"
    says "USER $(sed -n 's/^ *runAsUser: \([0-9]*\).*/\1/p' "$LEVIN_SOURCE/deploy/helm/levin/values.yaml"):" "$file.end"
    says "WORKDIR $(sed -n 's/^workingDir: //p' "$LEVIN_SOURCE/deploy/helm/levin/templates/_pod.tpl")" "$file.end"
done
same_file Dockerfile.build Dockerfile.cuda.build
same_file Dockerfile.end Dockerfile.cuda.end
